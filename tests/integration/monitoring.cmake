# What both daemons serve, against the alerts and the dashboard (with promtool and a real Prometheus where they are), and,
# with --help, against docs/reference.
if(TARGET gputopo-agent AND TARGET gputopo-scheduler AND TARGET gputopo)
    foreach(name monitoring reference)
        add_test(NAME integration/${name}
                 COMMAND ${GPUTOPO_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.py ${CMAKE_BINARY_DIR}/bin)
        set_tests_properties(integration/${name} PROPERTIES LABELS integration TIMEOUT 1500)
        if(GPUTOPO_SANITIZE MATCHES "thread")
            set_tests_properties(integration/${name} PROPERTIES
                                 ENVIRONMENT TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp)
        endif()
    endforeach()
endif()
