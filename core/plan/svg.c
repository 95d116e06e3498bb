#include "svg.h"

#include "plan_print.h"

static void attribute(core_text *text, const char *name, double value)
{
    core_text_add(text, " %s=\"", name);
    core_plan_add_fixed(text, value, 2);
    core_text_add(text, "\"");
}

static void add_look(core_text *text, svg_look look)
{
    core_text_add(text, " fill=\"%s\"", look.fill ? look.fill : "none");
    if (look.stroke)
        core_text_add(text, " stroke=\"%s\"", look.stroke);
    if (look.dashed)
        core_text_add(text, " stroke-width=\"1.5\" stroke-dasharray=\"4 3\"");
}

void core_svg_begin(core_text *text, double width, double height,
                    const char *title)
{
    core_text_add(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
                        "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ");
    core_plan_add_fixed(text, width, 0);
    core_text_add(text, " ");
    core_plan_add_fixed(text, height, 0);
    core_text_add(text, "\"");
    attribute(text, "width", width);
    attribute(text, "height", height);
    core_text_add(text, " font-family=\"Helvetica, Arial, 'DejaVu Sans', "
                        "sans-serif\">\n<title>");
    core_text_add_xml(text, title);
    core_text_add(text, "</title>\n");
    core_svg_rect(text, 0, 0, width, height, (svg_look){.fill = "#ffffff"},
                  NULL);
}

void core_svg_end(core_text *text)
{
    core_text_add(text, "</svg>\n");
}

void core_svg_rect(core_text *text, double x, double y, double width,
                   double height, svg_look look, const char *tip)
{
    core_text_add(text, "<rect");
    attribute(text, "x", x);
    attribute(text, "y", y);
    attribute(text, "width", width);
    attribute(text, "height", height);
    add_look(text, look);
    if (!tip) {
        core_text_add(text, "/>\n");
        return;
    }
    core_text_add(text, "><title>");
    core_text_add_xml(text, tip);
    core_text_add(text, "</title></rect>\n");
}

void core_svg_line(core_text *text, double x1, double y1, double x2, double y2,
                   svg_look look)
{
    core_text_add(text, "<line");
    attribute(text, "x1", x1);
    attribute(text, "y1", y1);
    attribute(text, "x2", x2);
    attribute(text, "y2", y2);
    add_look(text, look);
    core_text_add(text, "/>\n");
}

void core_svg_text(core_text *text, double x, double y, double size,
                   svg_anchor anchor, const char *fill, const char *string)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    core_text_add(text, "<text");
    attribute(text, "x", x);
    attribute(text, "y", y);
    attribute(text, "font-size", size);
    core_text_add(text, " text-anchor=\"%s\" fill=\"%s\">", anchors[anchor],
                  fill);
    core_text_add_xml(text, string);
    core_text_add(text, "</text>\n");
}

double core_svg_text_width(size_t n, double size)
{
    return 0.58 * size * (double)n;
}
