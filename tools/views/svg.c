#include "svg.h"

#include <stdint.h>
#include <utf8proc.h>

/* Text as content of an element: markup is escaped, and what XML has no place
 * for becomes U+FFFD. */
static void add_xml(FILE *out, const char *text)
{
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)text;
    while (*s) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate(s, -1, &c);
        if (n < 1 || c < ' ' || c == 0xfffe || c == 0xffff)
            fputs("\xef\xbf\xbd", out);
        else if (c == '<' || c == '>' || c == '&' || c == '"')
            fprintf(out, "&#%d;", (int)c);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n < 1 ? 1 : n;
    }
}

static void attribute(FILE *out, const char *name, double value)
{
    fprintf(out, " %s=\"%.2f\"", name, value);
}

static void add_look(FILE *out, svg_look look)
{
    fprintf(out, " fill=\"%s\"", look.fill ? look.fill : "none");
    if (look.stroke)
        fprintf(out, " stroke=\"%s\"", look.stroke);
    if (look.dashed)
        fprintf(out, " stroke-width=\"1.5\" stroke-dasharray=\"4 3\"");
}

void svg_begin(FILE *out, double width, double height, const char *title)
{
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
            "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\"",
            width, height);
    attribute(out, "width", width);
    attribute(out, "height", height);
    fprintf(out, " font-family=\"Helvetica, Arial, 'DejaVu Sans', "
                 "sans-serif\">\n<title>");
    add_xml(out, title);
    fprintf(out, "</title>\n");
    svg_rect(out, 0, 0, width, height, (svg_look){.fill = "#ffffff"}, NULL);
}

void svg_end(FILE *out)
{
    fprintf(out, "</svg>\n");
}

void svg_rect(FILE *out, double x, double y, double width, double height,
              svg_look look, const char *tip)
{
    fprintf(out, "<rect");
    attribute(out, "x", x);
    attribute(out, "y", y);
    attribute(out, "width", width);
    attribute(out, "height", height);
    add_look(out, look);
    if (!tip) {
        fprintf(out, "/>\n");
        return;
    }
    fprintf(out, "><title>");
    add_xml(out, tip);
    fprintf(out, "</title></rect>\n");
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2,
              svg_look look)
{
    fprintf(out, "<line");
    attribute(out, "x1", x1);
    attribute(out, "y1", y1);
    attribute(out, "x2", x2);
    attribute(out, "y2", y2);
    add_look(out, look);
    fprintf(out, "/>\n");
}

void svg_text(FILE *out, double x, double y, double size, svg_anchor anchor,
              const char *fill, const char *string)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(out, "<text");
    attribute(out, "x", x);
    attribute(out, "y", y);
    attribute(out, "font-size", size);
    fprintf(out, " text-anchor=\"%s\" fill=\"%s\">", anchors[anchor], fill);
    add_xml(out, string);
    fprintf(out, "</text>\n");
}

double svg_text_width(size_t n, double size)
{
    return 0.58 * size * (double)n;
}
