# The command line's view of a cluster: against the double of the API server, and against the real one where its program
# is found ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gputopo)
    set(cluster_test /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_cluster.py $<TARGET_FILE_DIR:gputopo>)
    add_test(NAME integration/cluster COMMAND ${cluster_test} double)
    add_test(NAME integration/login
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_login.py $<TARGET_FILE_DIR:gputopo>)
    add_test(NAME integration/try COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_try.py $<TARGET_FILE_DIR:gputopo>)
    set_tests_properties(integration/cluster integration/login integration/try PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/cluster-real COMMAND ${cluster_test} real)
    set_tests_properties(integration/cluster-real PROPERTIES LABELS integration TIMEOUT 1500 SKIP_RETURN_CODE 77)
endif()
