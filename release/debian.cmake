# What Debian asks of a package's files and CMake does not do; run by cpack before it packs.
# Everything bears the time of the commit, so that the packages are the same, byte by byte, at every run.
execute_process(COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/parts.py epoch OUTPUT_VARIABLE epoch
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(ENV{SOURCE_DATE_EPOCH} ${epoch})
execute_process(COMMAND date --utc --rfc-email --date=@${epoch} OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
foreach(component ${CPACK_COMPONENTS_ALL})
    set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component})
    set(doc ${root}/usr/share/doc/${component})
    if(EXISTS ${root}/usr/etc)
        file(RENAME ${root}/usr/etc ${root}/etc)
    endif()
    configure_file(${CMAKE_CURRENT_LIST_DIR}/../CHANGELOG.md ${doc}/changelog COPYONLY)
    file(WRITE ${doc}/changelog.Debian "gputopo (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Made from the release of that version: see changelog.gz.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
    file(GLOB pages ${root}/usr/share/man/*/*.[18])
    execute_process(COMMAND gzip -9n ${doc}/changelog ${doc}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND chmod -R u=rwX,go=rX ${root} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND find ${root} -exec touch --no-dereference --date=@${epoch} {} + COMMAND_ERROR_IS_FATAL ANY)
endforeach()
