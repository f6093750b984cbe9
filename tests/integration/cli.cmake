# The program gputopo from outside: exit codes, one-line messages, formats, completion, manual page.
if(TARGET gputopo)
    add_test(NAME integration/cli
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_cli.py $<TARGET_FILE_DIR:gputopo>)
    set_tests_properties(integration/cli PROPERTIES LABELS integration TIMEOUT 1500)
endif()

# check-node against the fake vendor library.
if(TARGET gputopo AND TARGET gputopo-probe)
    add_test(NAME integration/check-node
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_check_node.py $<TARGET_FILE_DIR:gputopo> ${PROJECT_BINARY_DIR}/tests)
    set_tests_properties(integration/check-node PROPERTIES LABELS integration TIMEOUT 1500)
endif()
