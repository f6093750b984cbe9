# The doors of the schedulers: gputopo-scheduler, its part "extender", against the double of the API server.
if(TARGET gputopo-scheduler)
    add_test(NAME integration/extender
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_extender.py $<TARGET_FILE:gputopo-scheduler>)
    set_tests_properties(integration/extender PROPERTIES LABELS integration TIMEOUT 1500)
endif()
