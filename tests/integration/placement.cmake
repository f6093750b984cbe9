# The placement controller: against the double of the API server, and against the real one where its program is found
# ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gt_placement)
    add_executable(placement-host ${CMAKE_CURRENT_LIST_DIR}/placement_host.c
                   ${CMAKE_SOURCE_DIR}/scheduler-ext/companion/own_claims.c)
    target_link_libraries(placement-host PRIVATE core_checks gt_webhook)
    set_target_properties(placement-host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME integration/placement
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-writes
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_writes.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-writes PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-running
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_running.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-running PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-life
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_life.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-life PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-never
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_never.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-never PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-numa
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_numa.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-numa PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-kinds
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_kinds.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-kinds PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-webhook
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_webhook.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-webhook PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-claims
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_claims.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-claims PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-own-claims
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_own_claims.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-own-claims PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-queues
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_queues.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-queues PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-gangs
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_gangs.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-gangs PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-object
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_object.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-object PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-faults
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_faults.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-faults PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-reserve
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_reserve.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-reserve PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-quota
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_quota.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-quota PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-rules
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_rules.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-rules PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-resources
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_resources.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-resources PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-parts
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_parts.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-parts PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-node-loss
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_node_loss.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-node-loss PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-rebalance
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_rebalance.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-rebalance PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-unhealthy
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_unhealthy.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-unhealthy PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/placement-unplaced
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_placement_unplaced.py $<TARGET_FILE:placement-host>)
    set_tests_properties(integration/placement-unplaced PROPERTIES LABELS integration TIMEOUT 1500)
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
endif()
