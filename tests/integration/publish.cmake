# What the agent publishes: against the double of the API server, and against the real one where its program is found
# ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gputopo-agent)
    add_test(NAME integration/publish
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_publish.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/publish PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/publish-plan
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_publish_plan.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/publish-plan PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/dra
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_dra.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/dra PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/publish-real
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_publish_real.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/publish-real PROPERTIES LABELS integration TIMEOUT 1500 SKIP_RETURN_CODE 77)
endif()
