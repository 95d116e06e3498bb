/*
 * Drawing into a text of SVG: no script, no style sheet, no font but the
 * viewer's. Lengths are pixels; text is escaped.
 */
#pragma once

#include "../base/text.h"

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

typedef struct svg_look {
    const char *fill;   /* colour; NULL: none */
    const char *stroke; /* colour; NULL: none */
    bool dashed;
} svg_look;

/* title: what the drawing is called. */
void core_svg_begin(core_text *text, double width, double height,
                    const char *title);
void core_svg_end(core_text *text);
/* tip: shown by viewers that can; NULL: none. */
void core_svg_rect(core_text *text, double x, double y, double width,
                   double height, svg_look look, const char *tip);
void core_svg_line(core_text *text, double x1, double y1, double x2, double y2,
                   svg_look look);
void core_svg_text(core_text *text, double x, double y, double size,
                   svg_anchor anchor, const char *fill, const char *string);
/* About how wide a text of n characters is. */
double core_svg_text_width(size_t n, double size);
