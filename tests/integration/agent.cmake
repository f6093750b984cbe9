# The daemon from outside: on recorded nodes and with the fake vendor library, against the kubelet double.
if(TARGET gputopo-agent AND TARGET fake_mxsml)
    foreach(part agent agent-usage agent-probe)
        string(REPLACE "-" "_" file test_${part}.py)
        add_test(NAME integration/${part}
                 COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${file} $<TARGET_FILE_DIR:gputopo-agent>
                         $<TARGET_FILE:fake_mxsml>)
        set_tests_properties(integration/${part} PROPERTIES LABELS integration TIMEOUT 1500)
    endforeach()
    add_test(NAME integration/cdi
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_cdi.py $<TARGET_FILE_DIR:gputopo-agent>)
    set_tests_properties(integration/cdi PROPERTIES LABELS integration TIMEOUT 1500)
    if(GPUTOPO_SANITIZE MATCHES "thread")
        # A scan that hangs is left behind when the agent ends: that is no leak.
        set_tests_properties(integration/agent integration/agent-usage integration/agent-probe integration/cdi PROPERTIES ENVIRONMENT
            TSAN_OPTIONS=report_thread_leaks=0:suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp)
    endif()
endif()

# Faults of single GPUs: what is not well is not given out.
if(TARGET gputopo-agent AND TARGET fake_mxsml AND TARGET gputopo)
    add_test(NAME integration/health
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_health.py $<TARGET_FILE_DIR:gputopo-agent>
                     $<TARGET_FILE:fake_mxsml>)
    set_tests_properties(integration/health PROPERTIES LABELS integration TIMEOUT 1500)
endif()
