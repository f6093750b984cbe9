# The extenders and their certificates: gputopo-scheduler against the double of the API server.
if(TARGET gputopo-scheduler)
    foreach(name extender certificates)
        add_test(NAME integration/${name}
                 COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_${name}.py $<TARGET_FILE:gputopo-scheduler>)
        set_tests_properties(integration/${name} PROPERTIES LABELS integration TIMEOUT 1500)
    endforeach()
endif()
