# The program gputopo from outside: exit codes, one-line messages, formats, completion, manual page.
if(TARGET gputopo)
    add_test(NAME integration/cli
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_cli.py $<TARGET_FILE_DIR:gputopo>)
    set_tests_properties(integration/cli PROPERTIES LABELS integration TIMEOUT 1500)
endif()
