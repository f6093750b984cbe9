# What an operator applies, without a cluster: manifests, custom resources and the image. tests/e2e applies them.
add_test(NAME integration/daemonset
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_manifests.py ${CMAKE_BINARY_DIR} ${PROJECT_VERSION})
set_tests_properties(integration/daemonset PROPERTIES LABELS integration TIMEOUT 1500)
