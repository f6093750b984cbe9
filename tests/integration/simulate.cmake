# gputopo simulate from outside: exit codes, messages, formats, determinism.
if(TARGET gputopo)
    add_test(NAME integration/simulate
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_simulate.py $<TARGET_FILE_DIR:gputopo>)
    set_tests_properties(integration/simulate PROPERTIES LABELS integration TIMEOUT 1500)
endif()
