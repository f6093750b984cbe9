/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "scheduler-ext/sim/result.h"

/* Line charts as SVG: time to the right, one line for each policy, with the name and the run's number at its
 * end. */

enum {
    WIDTH = 900,
    HEIGHT = 300,
    LEFT = 64,
    RIGHT = 190,
    TOP = 42,
    BOTTOM = 44,
    LABEL_STEP = 15, /* least distance of two names */
    TICKS = 6,       /* about so many on an axis */
    LINES_MAX = 16,
    SMOOTH = 12, /* a point over time is the mean of so many samples on each side */
};

/* Distinguishable also with colour blindness (Okabe and Ito); ours is the strongest. */
static const char *const colours[] = {"#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                      "#7f7f7f", "#8c564b", "#b8a800", "#332288", "#117733"};

const char *const gt_chart_names[] = {"occupancy", "acceptance", "spread", "fragmentation", NULL};

static const struct style {
    const char *title;
    double scale;
    const char *unit;
} styles[] = {
    {"Occupancy: GPUs in use", 100, "%"},
    {"Acceptance: the part accepted of what was asked for, so far", 100, "%"},
    {"Spread: supernodes a unit lies on, mean", 1, ""},
    {"", 100, "%"}, /* the label names the size */
};

static double value_of(const struct gt_sample *sample, enum gt_chart chart)
{
    switch (chart) {
    case GT_CHART_OCCUPANCY:
        return sample->occupancy;
    case GT_CHART_ACCEPTANCE:
        return sample->acceptance;
    case GT_CHART_SPREAD:
        return sample->spread;
    default:
        return sample->fragmentation;
    }
}

/* The point to draw for a sample: over time the mean of its neighbourhood, since single values vary much.
 * Cumulative values are smooth by themselves. */
static double point(const struct gt_result *run, uint32_t at, enum gt_chart chart, enum gt_chart_axis axis)
{
    uint32_t width = axis == GT_AXIS_HOURS && chart != GT_CHART_ACCEPTANCE ? SMOOTH : 0;
    uint32_t from = at > width ? at - width : 0,
             to = at + width < run->samples ? at + width : run->samples - 1;
    double sum = 0;
    for (uint32_t i = from; i <= to; i++)
        sum += value_of(&run->series[i], chart);
    return sum / (to - from + 1) * styles[chart].scale;
}

static double figure_of(const struct gt_result *run, enum gt_chart chart)
{
    const double figures[] = {run->occupancy, run->acceptance, run->spread_mean, run->fragmentation};
    return figures[chart] * styles[chart].scale;
}

/* A round step that divides `range` into about TICKS parts. */
static double round_step(double range)
{
    double power = pow(10, floor(log10(range / TICKS))), part = range / TICKS / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

struct scale {
    double low, high, step;
    double from, to; /* pixels */
};

static double pixel(const struct scale *scale, double value)
{
    return scale->from + (value - scale->low) / (scale->high - scale->low) * (scale->to - scale->from);
}

static struct scale make_scale(double low, double high, bool round, double from, double to)
{
    if (!(high - low > 1e-9))
        high = low + 1;
    struct scale scale = {low, high, round_step(high - low), from, to};
    if (round) {
        scale.low = floor(low / scale.step) * scale.step;
        scale.high = ceil(high / scale.step) * scale.step;
    }
    return scale;
}

/* The range of the series, without the filling of the cluster at the start. */
static struct scale value_scale(const struct gt_report *reports, uint32_t count, enum gt_chart chart,
                                enum gt_chart_axis axis, double top)
{
    double low = (double)INFINITY, high = -(double)INFINITY;
    uint32_t skip = axis == GT_AXIS_ARRIVED ? 3 : 1; /* fifths */
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t s = reports[i].run[0].samples * skip / 5; s < reports[i].run[0].samples; s++) {
            double value = point(&reports[i].run[0], s, chart, axis);
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
    if (!(low <= high))
        low = high = 0;
    return make_scale(low, high, true, top + HEIGHT - BOTTOM, top + TOP);
}

static void axes(const struct scale *x, const struct scale *y, enum gt_chart_axis axis, const char *unit,
                 struct gt_buf *to)
{
    for (int i = 0; i <= (int)lround((y->high - y->low) / y->step); i++) {
        double v = y->low + i * y->step, at = pixel(y, v);
        gt_buf_printf(to, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT, at,
                      WIDTH - RIGHT, at);
        gt_buf_printf(to, "<text x=\"%d\" y=\"%.1f\" class=\"end\">%.6g%s</text>\n", LEFT - 8, at + 4,
                      fabs(v) < y->step / 1e6 ? 0 : v, unit);
    }
    for (int i = 0; i * x->step <= x->high + 1e-9; i++) { /* from 0 */
        double v = i * x->step;
        gt_buf_printf(to,
                      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>"
                      "<text x=\"%.1f\" y=\"%.1f\" class=\"middle\">%.6g%s</text>\n",
                      pixel(x, v), y->from, pixel(x, v), y->from + 4, pixel(x, v), y->from + 18,
                      axis == GT_AXIS_ARRIVED ? v * 100 : v, axis == GT_AXIS_ARRIVED ? "%" : "");
    }
    gt_buf_printf(to, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"axis\"/>\n", LEFT, y->from,
                  WIDTH - RIGHT, y->from);
    gt_buf_printf(to, "<text x=\"%d\" y=\"%.1f\" class=\"middle\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                  y->from + 35, axis == GT_AXIS_ARRIVED ? "GPUs asked for, of all GPUs" : "simulated hours");
}

static double along(const struct gt_sample *sample, enum gt_chart_axis axis)
{
    return axis == GT_AXIS_ARRIVED ? sample->at : sample->at / 3600;
}

static void line(const struct gt_result *run, const char *colour, bool ours, enum gt_chart chart,
                 enum gt_chart_axis axis, const struct scale *x, const struct scale *y, struct gt_buf *to)
{
    gt_buf_printf(to, "<polyline stroke=\"%s\" stroke-width=\"%s\" points=\"", colour, ours ? "2.6" : "1.4");
    for (uint32_t s = 0; s < run->samples; s++)
        gt_buf_printf(to, "%.1f,%.1f ", pixel(x, along(&run->series[s], axis)),
                      pixel(y, point(run, s, chart, axis)));
    gt_buf_puts(to, "\"/>\n");
}

/* Names at the right, in the order of the last values, moved apart where they would overlap. */
static void names(const struct gt_report *reports, uint32_t count, enum gt_chart chart,
                  enum gt_chart_axis axis, const struct scale *y, struct gt_buf *to)
{
    uint32_t order[LINES_MAX];
    double at[LINES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_result *run = &reports[i].run[0];
        at[i] = pixel(y, point(run, run->samples - 1, chart, axis));
        uint32_t place = i;
        for (; place && at[order[place - 1]] > at[i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
    double last = -(double)INFINITY, room = y->from - (count ? (count - 1) * LABEL_STEP : 0);
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_report *report = &reports[order[i]];
        double where = at[order[i]] > last + LABEL_STEP ? at[order[i]] : last + LABEL_STEP;
        where = where < room + i * LABEL_STEP ? where : room + i * LABEL_STEP;
        gt_buf_printf(to, "<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s %.4g%s</text>\n", WIDTH - RIGHT + 8,
                      where + 4, colours[order[i] % GT_COUNT(colours)], report->policy,
                      figure_of(&report->run[0], chart), styles[chart].unit);
        last = where;
    }
}

static void draw(const struct gt_report *reports, uint32_t count, enum gt_chart chart,
                 enum gt_chart_axis axis, double top, struct gt_buf *to)
{
    double begin = 0, end = 0;
    count = count > LINES_MAX ? LINES_MAX : count;
    for (uint32_t i = 0; i < count; i++)
        end = fmax(end, along(&reports[i].run[0].series[reports[i].run[0].samples - 1], axis));
    struct scale x = make_scale(begin, end, false, LEFT, WIDTH - RIGHT);
    struct scale y = value_scale(reports, count, chart, axis, top);
    gt_buf_printf(to, "<text x=\"%d\" y=\"%.1f\" class=\"title\">", LEFT, top + 26);
    if (chart == GT_CHART_FRAGMENTATION)
        gt_buf_printf(to, "Fragmentation: the part of the free GPUs that no unit of %u can use",
                      count ? reports[0].run[0].fragmentation_size : 0);
    else
        gt_buf_puts(to, styles[chart].title);
    gt_buf_puts(to, "</text>\n");
    axes(&x, &y, axis, styles[chart].unit, to);
    gt_buf_printf(to,
                  "<clipPath id=\"c%d\"><rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/></clipPath>\n"
                  "<g fill=\"none\" stroke-linejoin=\"round\" clip-path=\"url(#c%d)\">\n",
                  chart, LEFT, y.to - 2, WIDTH - RIGHT - LEFT, y.from - y.to + 4, chart);
    for (uint32_t i = count; i--;) /* the first one is drawn on top */
        line(&reports[i].run[0], colours[i % GT_COUNT(colours)], i == 0, chart, axis, &x, &y, to);
    gt_buf_puts(to, "</g>\n");
    names(reports, count, chart, axis, &y, to);
}

static void escape(const char *text, struct gt_buf *to)
{
    for (; *text; text++) {
        const char *entity = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : NULL;
        if (entity)
            gt_buf_puts(to, entity);
        else if ((unsigned char)*text >= 0x20)
            gt_buf_add(to, text, 1);
    }
}

static void open_picture(const char *title, unsigned charts, struct gt_buf *to)
{
    unsigned height = charts * HEIGHT + 34;
    gt_buf_printf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\" "
        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
        "<style>.grid{stroke:#e4e4e4}.axis{stroke:#888}.end{text-anchor:end}"
        ".middle{text-anchor:middle}.title{font-size:14px;font-weight:bold}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"24\" "
        "fill=\"#666\" font-size=\"11\">",
        WIDTH, height, WIDTH, height, LEFT);
    escape(title, to);
    gt_buf_puts(to, "</text>\n");
}

void gt_report_chart(const struct gt_report *reports, uint32_t count, const char *title, enum gt_chart chart,
                     enum gt_chart_axis axis, struct gt_buf *to)
{
    open_picture(title, 1, to);
    draw(reports, count, chart, axis, 30, to);
    gt_buf_puts(to, "</svg>\n");
}

void gt_report_charts(const struct gt_report *reports, uint32_t count, const char *title,
                      enum gt_chart_axis axis, struct gt_buf *to)
{
    open_picture(title, GT_COUNT(styles), to);
    for (unsigned chart = 0; chart < GT_COUNT(styles); chart++)
        draw(reports, count, (enum gt_chart)chart, axis, 30 + (double)chart * HEIGHT, to);
    gt_buf_puts(to, "</svg>\n");
}
