/*
 * Drawing into a file of SVG: no script, no style sheet, no font but the
 * viewer's. Lengths are pixels; text is escaped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

typedef struct svg_look {
    const char *fill;   /* colour; NULL: none */
    const char *stroke; /* colour; NULL: none */
    bool dashed;
} svg_look;

/* title: what the drawing is called. */
void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);
/* tip: shown by viewers that can; NULL: none. */
void svg_rect(FILE *out, double x, double y, double width, double height,
              svg_look look, const char *tip);
void svg_line(FILE *out, double x1, double y1, double x2, double y2,
              svg_look look);
void svg_text(FILE *out, double x, double y, double size, svg_anchor anchor,
              const char *fill, const char *string);
/* About how wide a text of n characters is. */
double svg_text_width(size_t n, double size);
