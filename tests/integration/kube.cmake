# The Kubernetes client from outside: against the double of the API server, and against the real one where its
# program is found ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gt_kube)
    add_executable(kube-tool ${CMAKE_CURRENT_LIST_DIR}/kube_tool.c)
    target_link_libraries(kube-tool PRIVATE gt_kube)
    set_target_properties(kube-tool PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME integration/kube
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_kube.py $<TARGET_FILE:kube-tool>)
    add_test(NAME integration/kube-watch
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_kube_watch.py $<TARGET_FILE:kube-tool>)
    add_test(NAME integration/kube-sick
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_kube_sick.py $<TARGET_FILE:kube-tool>)
    set_tests_properties(integration/kube integration/kube-watch integration/kube-sick PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/kube-real
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_kube_real.py $<TARGET_FILE:kube-tool>)
    set_tests_properties(integration/kube-real PROPERTIES LABELS integration TIMEOUT 1500 SKIP_RETURN_CODE 77)
endif()
