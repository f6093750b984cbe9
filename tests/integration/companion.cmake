# gputopo-scheduler from outside: against the double of the API server, and against the real one where its program is
# found ($GPUTOPO_KUBE_BIN or PATH; skipped otherwise).
if(TARGET gputopo-scheduler)
    add_test(NAME integration/companion
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_companion.py $<TARGET_FILE:gputopo-scheduler>)
    add_test(NAME integration/companion-supernodes
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_companion_supernodes.py $<TARGET_FILE:gputopo-scheduler>)
    add_test(NAME integration/moved-gpus
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_moved_gpus.py $<TARGET_FILE:gputopo-scheduler>)
    set_tests_properties(integration/companion integration/companion-supernodes integration/moved-gpus PROPERTIES LABELS integration TIMEOUT 1500)
    add_test(NAME integration/companion-real
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_companion_real.py $<TARGET_FILE:gputopo-scheduler>)
    set_tests_properties(integration/companion-real PROPERTIES LABELS integration TIMEOUT 1500 SKIP_RETURN_CODE 77)
endif()
