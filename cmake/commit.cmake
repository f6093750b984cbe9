# Says in a header which commit the sources are of; a header that says it already is not touched, so that only a new
# commit compiles anything: cmake -D SOURCE=DIR -D OUT=FILE [-D COMMIT=NAME] -P commit.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT COMMIT)
    file(STRINGS ${SOURCE}/cmake/commit COMMIT LIMIT_COUNT 1) # hash and time where the sources come from `git archive`
    if(COMMIT MATCHES "^[0-9a-f]+ [0-9]+$")
        string(SUBSTRING ${COMMIT} 0 12 COMMIT)
    elseif(EXISTS ${SOURCE}/.git)
        execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE COMMIT
                        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    else()
        set(COMMIT "")
    endif()
endif()
if(NOT COMMIT)
    set(COMMIT unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define GPUTOPO_COMMIT \"@COMMIT@\"\n" @ONLY)
