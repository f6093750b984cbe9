# SPDX-License-Identifier: Apache-2.0
# How costs grow with the cluster, each over its own at the smallest size: `sizes` as core.sh makes it, to `picture`.
stats sizes every ::0::0 using 2 nooutput name "best"
stats sizes every ::0::0 using 3 nooutput name "bound"
stats sizes every ::0::0 using 4 nooutput name "plan"
stats sizes every ::0::0 using 5 nooutput name "change"
stats sizes every ::0::0 using 6 nooutput name "memory"
set terminal svg size 800,420 font "sans-serif,13" background "#ffffff"
set output picture
set logscale xy
set xrange [1000:50000]
set xtics ("1,000" 1000, "2,000" 2000, "5,000" 5000, "10,000" 10000, "20,000" 20000, "50,000" 50000)
set xlabel "nodes of 8 GPUs"
set ylabel "cost, in that of 1,000 nodes"
set ytics (1, 2, 5, 10, 20, 50)
set yrange [0.8:80]
set grid back linecolor "#e4e4e4"
set border 3 linecolor "#888888"
set tics nomirror
set key left top reverse Left
plot x / 1000 with lines dashtype 2 linecolor "#888888" title "linear", \
    sizes using 1:($2 / best_min) with linespoints linewidth 2 pointtype 7 linecolor "#d55e00" title "score all nodes", \
    sizes using 1:($3 / bound_min) with linespoints linewidth 1 pointtype 6 linecolor "#e69f00" title "its bound: the loop alone", \
    sizes using 1:($6 / memory_min) with linespoints linewidth 2 pointtype 5 linecolor "#009e73" title "memory", \
    sizes using 1:($4 / plan_min) with linespoints linewidth 2 pointtype 9 linecolor "#0072b2" title "plan 16 units of 4 pods of 8", \
    sizes using 1:($5 / change_min) with linespoints linewidth 2 pointtype 11 linecolor "#cc79a7" title "state change"
