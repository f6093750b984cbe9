/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topology/model/svg.h"

void svg_escape(struct gt_buf *to, const char *text)
{
    for (const char *p = text; *p;) {
        unsigned n = gt_text_utf8_length(p);
        /* XML has no place for control characters, U+FFFE and U+FFFF, even as references. */
        bool outlaw = !n || (unsigned char)*p < 0x20 ||
                      (n == 3 && !memcmp(p, "\xef\xbf", 2) && (unsigned char)p[2] >= 0xbe);
        if (outlaw)
            gt_buf_puts(to, "?");
        else if (*p == '&')
            gt_buf_puts(to, "&amp;");
        else if (*p == '<')
            gt_buf_puts(to, "&lt;");
        else if (*p == '>')
            gt_buf_puts(to, "&gt;");
        else if (*p == '"')
            gt_buf_puts(to, "&quot;");
        else
            gt_buf_add(to, p, n);
        p += n ? n : 1;
    }
}

void svg_text(struct gt_buf *to, struct svg_text style, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    gt_buf_printf(to, "<text x=\"%d\" y=\"%d\" font-size=\"%d\" fill=\"%s\"%s%s>", style.x, style.y,
                  style.size, style.color ? style.color : SVG_INK, style.more ? " " : "",
                  style.more ? style.more : "");
    svg_escape(to, text);
    gt_buf_puts(to, "</text>\n");
}

const struct svg_health *svg_health(enum gt_gpu_health health)
{
    static const struct svg_health styles[] = {
        [GT_GPU_HEALTH_UNKNOWN] = {"health unknown", "none", "#8a97a8", "#eceff3", "#8a97a8"},
        [GT_GPU_HEALTHY] = {"healthy", SVG_GOOD, SVG_GOOD, SVG_BACKGROUND, "#cbd5e1"},
        [GT_GPU_UNHEALTHY] = {"unhealthy", SVG_BAD, SVG_BAD, SVG_BAD_BACKGROUND, SVG_BAD},
    };
    return &styles[health];
}

void svg_rect(struct gt_buf *to, const struct svg_box *box, int radius, const char *fill, const char *edge)
{
    gt_buf_printf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"", box->x,
                  box->y, box->width, box->height, radius, fill);
    if (edge)
        gt_buf_printf(to, " stroke=\"%s\"", edge);
    gt_buf_puts(to, "/>\n");
}

void svg_line(struct gt_buf *to, int x1, int y1, int x2, int y2)
{
    gt_buf_printf(to, "<path d=\"M%d %dL%d %d\" stroke=\"" SVG_WIRE "\" stroke-width=\"1.5\"/>\n", x1, y1, x2,
                  y2);
}

void svg_weight_color(uint32_t weight, uint32_t low, uint32_t high, char to[static 8])
{
    static const double weak[3] = {103, 190, 232}, strong[3] = {37, 78, 196};
    double t = high > low ? (double)(weight - low) / (double)(high - low) : 1;
    unsigned rgb[3];
    for (unsigned i = 0; i < 3; i++)
        rgb[i] = (unsigned)(weak[i] + (strong[i] - weak[i]) * t + 0.5) & 0xff;
    snprintf(to, 8, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}
