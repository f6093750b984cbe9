# SPDX-License-Identifier: Apache-2.0
# What loss.weight does: `points` as weight.sh makes it, to `picture`.
set terminal svg size 800,380 font "sans-serif,13" background "#ffffff"
set output picture
set xrange [-0.2:5.2]
set yrange [0:*]
set xlabel "loss.weight"
set ylabel "bandwidth of the free GPUs that is gone, %"
set grid back linecolor "#e4e4e4"
set border 3 linecolor "#888888"
set tics nomirror
set key right top
plot points index 4 using 0:2:xtic(1) with linespoints linewidth 2 pointtype 7 linecolor "#d55e00" title "three kinds of nodes, pods of 1 to 6 and 8", \
    points index 3 using 0:2 with linespoints linewidth 2 pointtype 5 linecolor "#0072b2" title "three kinds of nodes, pods of 1, 2, 4, 8", \
    points index 1 using 0:2 with linespoints linewidth 2 pointtype 6 linecolor "#7f7f7f" title "groups of 4, pods of 1 to 6 and 8", \
    points index 2 using 0:2 with linespoints linewidth 2 pointtype 4 linecolor "#cc79a7" title "pairs, pods of 1 to 6 and 8", \
    points index 0 using 0:2 with linespoints linewidth 2 pointtype 9 linecolor "#009e73" title "groups of 4, pods of 1, 2, 4, 8"
