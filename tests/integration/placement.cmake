# The placement controller: against the double of the API server, and against the real one where its program is found
# ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gt_placement)
    add_executable(placement-host ${CMAKE_CURRENT_LIST_DIR}/placement_host.c ${CMAKE_CURRENT_LIST_DIR}/placement_events.c
                   ${CMAKE_SOURCE_DIR}/scheduler-ext/companion/own_claims.c)
    target_link_libraries(placement-host PRIVATE core_checks gt_webhook)
    target_link_options(placement-host PRIVATE -Wl,--wrap=gt_placement_set_state,--wrap=gt_placement_fail,--wrap=gt_job_view_make)
    set_target_properties(placement-host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    foreach(part placement placement-claims placement-faults placement-fragmented placement-gangs placement-kinds placement-life
                  placement-moves placement-never placement-node-loss placement-numa placement-object placement-own-claims
                  placement-parts placement-preempt placement-queues placement-quota placement-rebalance placement-reserve placement-resources
                  placement-rules placement-running placement-unhealthy placement-unplaced placement-webhook
                  placement-writes placement-yield)
        string(REPLACE - _ file ${part})
        add_test(NAME integration/${part}
                 COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_${file}.py $<TARGET_FILE:placement-host>)
        set_tests_properties(integration/${part} PROPERTIES LABELS integration TIMEOUT 1500)
    endforeach()
    add_test(NAME integration/drain COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_drain.py
             $<TARGET_FILE:placement-host> $<TARGET_FILE:gputopo>)
    set_tests_properties(integration/drain PROPERTIES LABELS integration TIMEOUT 1500)
    if(TARGET gputopo-agent)
        add_test(NAME integration/isolate-evict COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_isolate_evict.py
                 $<TARGET_FILE:placement-host> $<TARGET_FILE:gputopo-agent> $<TARGET_FILE:gputopo>)
        set_tests_properties(integration/isolate-evict PROPERTIES LABELS integration TIMEOUT 1500)
    endif()
    if(TARGET gputopo-scheduler)
        add_test(NAME integration/refused COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_refused.py
                 $<TARGET_FILE:gputopo-scheduler>)
        set_tests_properties(integration/refused PROPERTIES LABELS integration TIMEOUT 1500)
        add_test(NAME integration/reasons COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_reasons.py
                 $<TARGET_FILE:gputopo-scheduler> $<TARGET_FILE:gputopo>)
        set_tests_properties(integration/reasons PROPERTIES LABELS integration TIMEOUT 1500)
        add_test(NAME integration/placement-ages COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_ages.py
                 $<TARGET_FILE:gputopo-scheduler> $<TARGET_FILE:gputopo>)
        set_tests_properties(integration/placement-ages PROPERTIES LABELS integration TIMEOUT 1500)
        add_test(NAME integration/namespace-weights COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_namespace_weights.py
                 $<TARGET_FILE:gputopo-scheduler> $<TARGET_FILE:gputopo>)
        set_tests_properties(integration/namespace-weights PROPERTIES LABELS integration TIMEOUT 1500)
    endif()
    add_test(NAME integration/placement-real
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_real.py
                     $<TARGET_FILE:placement-host> $<$<TARGET_EXISTS:gputopo-scheduler>:$<TARGET_FILE:gputopo-scheduler>>)
    set_tests_properties(integration/placement-real PROPERTIES LABELS integration TIMEOUT 1500 SKIP_RETURN_CODE 77)
    # placement-host notes there what happens to jobs: job_states.py compares it with the table, once all of these have run.
    set(events ${CMAKE_BINARY_DIR}/tests/job-events)
    file(MAKE_DIRECTORY ${events})
    get_property(tests DIRECTORY PROPERTY TESTS)
    list(FILTER tests INCLUDE REGEX "^integration/(placement|placement-.*|drain|isolate-evict)$")
    list(REMOVE_ITEM tests integration/placement-ages integration/placement-real) # of the companion; skipped in most places
    list(TRANSFORM tests REPLACE "^integration/" "" OUTPUT_VARIABLE names)
    foreach(name ${names})
        set_property(TEST integration/${name} APPEND PROPERTY ENVIRONMENT GPUTOPO_JOB_EVENTS=${events}/${name})
    endforeach()
    add_test(NAME integration/placement-events COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/model/job_states.py
             --happened ${events} ${names})
    set_tests_properties(integration/placement-events PROPERTIES LABELS integration DEPENDS "${tests}" SKIP_RETURN_CODE 77)
endif()
