# What an operator applies, without a cluster: manifests, custom resources and the image. tests/e2e applies them.
add_test(NAME integration/daemonset
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_manifests.py ${CMAKE_BINARY_DIR} ${PROJECT_VERSION})
set_tests_properties(integration/daemonset PROPERTIES LABELS integration TIMEOUT 1500)
if(TARGET gputopo-agent AND TARGET fake_mxsml AND TARGET gputopo-scheduler AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT GPUTOPO_SANITIZE)
    add_test(NAME integration/seccomp
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_seccomp.py $<TARGET_FILE_DIR:gputopo-agent> $<TARGET_FILE:fake_mxsml>)
    set_tests_properties(integration/seccomp PROPERTIES LABELS integration TIMEOUT 1500)
endif()
