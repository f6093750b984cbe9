# The companion's debug endpoints: /debug/model and /explain by HTTP, the page in a real Chromium where there is one
# (skipped otherwise). The model is fed by the makers of objects of the unit tests, which stand on cmocka.
if(TARGET gt_serve)
    add_executable(ui-host ${CMAKE_CURRENT_LIST_DIR}/ui_host.c ${CMAKE_CURRENT_LIST_DIR}/../unit/cache/cache_world.c)
    target_link_libraries(ui-host PRIVATE core_checks gt_serve cmocka)
    set_target_properties(ui-host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME integration/ui
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_ui.py $<TARGET_FILE:ui-host> $<TARGET_FILE:gputopo>)
    if(TARGET gputopo-scheduler)
        add_test(NAME integration/bundle COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_bundle.py
                 $<TARGET_FILE:ui-host> $<TARGET_FILE:gputopo> $<TARGET_FILE:gputopo-scheduler>)
        add_test(NAME integration/bundle-churn COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_bundle_churn.py
                 $<TARGET_FILE:gputopo> $<TARGET_FILE:gputopo-scheduler>)
        set_tests_properties(integration/bundle integration/bundle-churn PROPERTIES LABELS integration TIMEOUT 1500)
    endif()
    add_test(NAME integration/page
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_page.py $<TARGET_FILE:ui-host> $<TARGET_FILE:gputopo-scheduler>)
    add_test(NAME integration/ui-access
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_ui_access.py $<TARGET_FILE:gputopo-scheduler>)
    set_tests_properties(integration/ui integration/page integration/ui-access PROPERTIES LABELS integration TIMEOUT 1500)
endif()
