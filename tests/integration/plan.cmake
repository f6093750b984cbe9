# gputopo plan from outside: its answers, its JSON, wrong cluster files, and small clusters against a brute force.
if(TARGET gputopo AND TARGET gt_cluster_file)
    add_test(NAME integration/plan
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_plan.py $<TARGET_FILE_DIR:gputopo>)
    set_tests_properties(integration/plan PROPERTIES LABELS integration TIMEOUT 1500)
endif()
