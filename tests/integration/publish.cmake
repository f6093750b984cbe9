# What the agent publishes: against the double of the API server, and against the real one where its program is found
# ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gputopo-agent)
    add_test(NAME integration/publish
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_publish.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/publish PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/publish-plan
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_publish_plan.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/publish-plan PROPERTIES LABELS integration TIMEOUT 1500)
    add_library(slow_disk SHARED ${CMAKE_CURRENT_LIST_DIR}/slow_disk.c)
    set_target_properties(slow_disk PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_compile_options(slow_disk PRIVATE -fno-sanitize=all) # it is loaded before a sanitizer is
    target_link_options(slow_disk PRIVATE -fno-sanitize=all)
    target_link_libraries(slow_disk PRIVATE ${CMAKE_DL_LIBS})
    add_test(NAME integration/isolate
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_isolate.py $<TARGET_FILE:gputopo-agent> $<TARGET_FILE:gputopo>
                     $<TARGET_FILE:slow_disk>)
    set_tests_properties(integration/isolate PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/dra
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_dra.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/dra PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/dra-lost
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_dra_lost.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/dra-lost PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/disk
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_disk.py $<TARGET_FILE:gputopo-agent> $<TARGET_FILE:slow_disk>)
    set_tests_properties(integration/disk PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/publish-real
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_publish_real.py $<TARGET_FILE:gputopo-agent>)
    set_tests_properties(integration/publish-real PROPERTIES LABELS integration TIMEOUT 1500 SKIP_RETURN_CODE 77)
endif()
