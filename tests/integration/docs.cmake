# What a stranger sees first: the pages hold together with the sources, and ./dev demo says what they promise.
add_test(NAME integration/docs COMMAND ${GPUTOPO_PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/check_docs.py ${CMAKE_SOURCE_DIR})
set_tests_properties(integration/docs PROPERTIES LABELS integration TIMEOUT 1500)
add_test(NAME integration/dev COMMAND ${GPUTOPO_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_dev.py)
set_tests_properties(integration/dev PROPERTIES LABELS integration TIMEOUT 120)
add_test(NAME integration/lint-checks COMMAND ${GPUTOPO_PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/test_checks.py)
set_tests_properties(integration/lint-checks PROPERTIES LABELS integration TIMEOUT 120)
if(TARGET gputopo AND NOT GPUTOPO_SANITIZE) # the programs of others, for minutes
    add_test(NAME integration/page-commands
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_page_commands.py ${CMAKE_BINARY_DIR})
    set_tests_properties(integration/page-commands PROPERTIES LABELS integration TIMEOUT 1500 COST 3000 SKIP_RETURN_CODE 77)
endif()
if(TARGET gputopo-agent AND TARGET gputopo)
    add_test(NAME integration/demo COMMAND ${GPUTOPO_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/demo ${CMAKE_BINARY_DIR}/bin)
    set_tests_properties(integration/demo PROPERTIES LABELS integration TIMEOUT 1500)
    if(GPUTOPO_SANITIZE MATCHES "thread")
        set_tests_properties(integration/demo PROPERTIES
                             ENVIRONMENT TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp)
    endif()
endif()
