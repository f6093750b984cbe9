# The AdmissionCheck for Kueue, in the double of the API server.
if(TARGET gputopo-scheduler)
    add_test(NAME integration/kueue
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_kueue.py $<TARGET_FILE:gputopo-scheduler>)
    set_tests_properties(integration/kueue PROPERTIES LABELS integration TIMEOUT 1500)
endif()
