// Elements, escaping, and the two palettes.
#include "lib/plot/svg_picture.h"

#include <fmt/format.h>

#include <fstream>
#include <span>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/plot/svg_text.h"

namespace nvllm {
namespace {

// By color. After Okabe and Ito's palette, lightened for dark ground.
constexpr const char* kLight[] = {"#1f2328", "#6e7781", "#e6e8eb", "#0072b2", "#e69f00",
                                  "#009e73", "#cc79a7", "#d55e00", "#56b4e9"};
constexpr const char* kDark[] = {"#e8eaed", "#9aa2ab", "#2b3036", "#4aa8e0", "#f0b93a",
                                 "#2fc39a", "#b0628f", "#f08040", "#8ccbf2"};

std::string rules(std::span<const char* const> colours, const char* ground) {
    std::string css = fmt::format(".ground{{fill:{}}}", ground);
    for (size_t i = 0; i < colours.size(); ++i) {
        css += fmt::format(".i{0}{{fill:{1}}}.s{0}{{stroke:{1}}}", i, colours[i]);
    }
    return css;
}

// No custom properties: small renderers do not know them.
std::string style() {
    return "text{font-family:system-ui,sans-serif}line,polyline{fill:none;stroke-width:1.5}" +
           rules(kLight, "#ffffff") + "@media(prefers-color-scheme:dark){" +
           rules(kDark, "#16191d") + "}";
}

// Valid UTF-8, with spaces for control characters.
std::string escaped(std::string_view text) {
    std::string safe = utf8::with_replacement(text);
    for (char& c : safe) {
        if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return svg_escaped(safe);
}

}  // namespace

SvgPicture::SvgPicture(double width, double height, std::string_view title)
    : width_(width), height_(height), title_(title) {}

void SvgPicture::rectangle(double x, double y, double width, double height, SvgColor color,
                           std::string_view tip, double strength) {
    body_ +=
        fmt::format(R"(<rect class="i{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}")",
                    static_cast<int>(color), x, y, width, height);
    if (strength < 1.0) body_ += fmt::format(R"( opacity="{:.2f}")", strength);
    body_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(tip));
}

void SvgPicture::text(double x, double y, std::string_view text, double size, SvgColor color,
                      const char* anchor) {
    body_ += fmt::format(
        "<text class=\"i{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" "
        "text-anchor=\"{}\">{}</text>\n",
        static_cast<int>(color), x, y, size, anchor, escaped(text));
}

void SvgPicture::line(double x1, double y1, double x2, double y2, SvgColor color) {
    body_ += fmt::format(
        "<line class=\"s{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
        static_cast<int>(color), x1, y1, x2, y2);
}

void SvgPicture::path(const std::vector<std::pair<double, double>>& points, SvgColor color) {
    std::string places;
    for (const auto& [x, y] : points) places += fmt::format("{:.1f},{:.1f} ", x, y);
    body_ +=
        fmt::format("<polyline class=\"s{}\" points=\"{}\"/>\n", static_cast<int>(color), places);
}

std::string SvgPicture::finish() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n"
        "<style>{3}</style>\n<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n"
        "{4}</svg>\n",
        width_, height_, escaped(title_), style(), body_);
}

}  // namespace nvllm
