# SPDX-License-Identifier: Apache-2.0
"""What the checks of names forbid: without this they could stop to see anything."""
import unittest

import check_words
import measures


class Words(unittest.TestCase):
    def found(self, path, text):
        return [(line, name) for line, name, _ in check_words.several_meanings(path, text)]

    def test_room_is_for_pods(self):
        self.assertEqual([(2, "room")], self.found("base/loop.c", "int a;\nunsigned count, room;\n"))
        self.assertEqual([(1, "cable_room")], self.found("scheduler-ext/supernodes/network.h", "uint32_t cable_room;\n"))
        self.assertEqual([], self.found("scheduler-ext/core/plan.c", "struct room room;\n"))

    def test_hold_is_to_keep_back(self):
        self.assertEqual([(1, "gt_http_hold")], self.found("http/internal.h", "bool gt_http_hold(size_t bytes);\n"))
        self.assertEqual([(1, "gt_holdings")], self.found("deviceplugin/podresources.h", "struct gt_holdings;\n"))
        self.assertEqual([(1, "gt_desired_holds")], self.found("scheduler-ext/companion/desired.c", "gt_desired_holds(a);\n"))
        self.assertEqual([], self.found("scheduler-ext/core/queue.c", "struct item *holder;\n"))

    def test_planner_take_and_leave(self):
        self.assertEqual([(1, "gt_planner")], self.found("deviceplugin/plugin.c", "struct gt_planner *of;\n"))
        self.assertEqual([(1, "gt_extender_take")], self.found("scheduler-ext/serve/extender.h", "bool gt_extender_take(void);\n"))
        self.assertEqual([(1, "informer_leave")], self.found("kube/informer.c", "static bool informer_leave(void);\n"))
        self.assertEqual([], self.found("base/buf.h", "char *gt_buf_take(struct gt_buf *buf);\n"))

    def test_comments_texts_paths_and_tests_are_free(self):
        self.assertEqual([], self.found("base/loop.c", '/* room for more */ puts("no room");\n#include "x/room.h"\n'))
        self.assertEqual([], self.found("tests/unit/base/test_loop.c", "int room;\n"))


class Parameters(unittest.TestCase):
    def test_called_as_their_struct(self):
        found = list(measures.misnamed("struct gt_kube_request *request, const struct gt_cache_pod *const *pods, struct gt_node *ret_node, "
                                       "struct gt_buf *text, struct gt_class *classes, struct supernode_entry *entries, unsigned n"))
        self.assertEqual([], found)
        self.assertEqual([("svg_layout", "l"), ("gt_buf", "of")],
                         list(measures.misnamed("const struct svg_layout *l, struct gt_buf *of, struct gt_node *other")))


if __name__ == "__main__":
    unittest.main()
