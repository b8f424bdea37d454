// Elements of pictures and their texts.
#include "lib/plot/svg_picture.h"

#include <doctest/doctest.h>

#include "lib/plot/svg_text.h"

using namespace nvllm;

TEST_CASE("a picture is a document with its elements in order") {
    SvgPicture picture(100, 50, "a \"title\"");
    picture.rectangle(1, 2, 3, 4, SvgColor::series_0, "under the pointer", 0.5);
    picture.line(0, 0, 5, 5, SvgColor::faint);
    picture.path({{0.0, 1.0}, {2.0, 3.0}}, SvgColor::series_5);
    const std::string svg = picture.finish();
    CHECK(svg.find("<title>a &quot;title&quot;</title>") != std::string::npos);
    const size_t rectangle = svg.find(
        "<rect class=\"i3\" x=\"1.0\" y=\"2.0\" width=\"3.0\" height=\"4.0\" opacity=\"0.50\">"
        "<title>under the pointer</title></rect>");
    const size_t line =
        svg.find("<line class=\"s1\" x1=\"0.0\" y1=\"0.0\" x2=\"5.0\" y2=\"5.0\"/>");
    const size_t path = svg.find("<polyline class=\"s8\" points=\"0.0,1.0 2.0,3.0 \"/>");
    REQUIRE(path != std::string::npos);
    CHECK(rectangle < line);
    CHECK(line < path);
    CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("texts are valid, and control characters are spaces") {
    SvgPicture picture(10, 10, "");
    picture.text(0, 0, "a\tb\xff");
    CHECK(picture.finish().find(">a b\xef\xbf\xbd</text>") != std::string::npos);
}

TEST_CASE("characters of markup are entities") {
    CHECK(svg_escaped("a<b>&\"c\"") == "a&lt;b&gt;&amp;&quot;c&quot;");
    CHECK(svg_escaped("").empty());
}
