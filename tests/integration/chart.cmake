# The Helm chart, without Helm. tests/e2e installs it.
add_test(NAME integration/chart
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_chart.py ${CMAKE_BINARY_DIR} ${PROJECT_VERSION})
set_tests_properties(integration/chart PROPERTIES LABELS integration TIMEOUT 1500)
