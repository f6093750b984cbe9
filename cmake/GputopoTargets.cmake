# What every target of the house shares, and the functions that declare one.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
                    -Wcast-qual -Wundef -fno-common)
# Texts of errors and log lines are cut at their limit on purpose.
add_compile_options($<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
option(GPUTOPO_WERROR "treat warnings as errors" ON)
if(GPUTOPO_WERROR)
    add_compile_options(-Werror)
endif()
add_compile_options($<$<CONFIG:Release>:-fstack-protector-strong> $<$<CONFIG:Release>:-ffunction-sections>
                    $<$<CONFIG:Release>:-fdata-sections>)
add_compile_definitions($<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
add_link_options(-Wl,-z,relro,-z,now $<$<CONFIG:Release>:-Wl,--gc-sections>)

set(GPUTOPO_SANITIZE "" CACHE STRING "value of -fsanitize=, for example address,undefined")
if(GPUTOPO_SANITIZE)
    add_compile_options(-fsanitize=${GPUTOPO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
    add_link_options(-fsanitize=${GPUTOPO_SANITIZE})
endif()
option(GPUTOPO_COVERAGE "instrument for gcov" OFF)
if(GPUTOPO_COVERAGE)
    add_compile_options(--coverage)
    add_link_options(--coverage)
endif()

# gputopo_floor(name SOURCES file... USES public-target... PRIVATE target...)
# A static library of one floor. Headers are included by their path in the repository ("base/err.h");
# USES names the floors below whose headers this floor's own headers need, PRIVATE what stays inside.
function(gputopo_floor name)
    cmake_parse_arguments(F "" "" "SOURCES;USES;PRIVATE" ${ARGN})
    add_library(${name} STATIC ${F_SOURCES})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${F_USES} PRIVATE ${F_PRIVATE})
endfunction()

# gputopo_unit_test(name SOURCES file... USES target...): a cmocka program, run by ctest as unit/<name>
function(gputopo_unit_test name)
    cmake_parse_arguments(T "" "" "SOURCES;USES" ${ARGN})
    add_executable(test_${name} ${T_SOURCES})
    target_link_libraries(test_${name} PRIVATE ${T_USES} cmocka)
    target_compile_definitions(test_${name} PRIVATE
        TEST_SOURCE_DIR="${CMAKE_SOURCE_DIR}/tests" TEST_BINARY_DIR="${CMAKE_BINARY_DIR}")
    set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME unit/${name} COMMAND test_${name})
    set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT 1500)
endfunction()
