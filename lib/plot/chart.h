// Charts as self-contained SVG: axes, grid, legend, no script, no font or style from elsewhere.
//
// Text and axes take the reader's colour scheme (prefers-color-scheme), series have colours that
// stand apart on light and dark grounds and for the colour-blind (Okabe & Ito 2008), and markers of
// different shapes: 24 series differ. Lines without markers are the text's colour, dashed
// differently.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nvllm {

struct ChartSeries {
    std::string name;  // in the legend; empty: none
    std::vector<std::pair<double, double>> points;
    bool has_line = true;
    bool has_markers = true;
    std::vector<std::string> labels = {};  // of the points, shown under the pointer; or none
};

// A span of time on a row of its own.
struct ChartBar {
    size_t row = 0;
    double begin = 0.0, end = 0.0;
    size_t colour = 0;  // as the series' number
};

struct Chart {
    std::string title, x_label, y_label;
    bool x_is_logarithmic = false, y_is_logarithmic = false;
    std::vector<ChartSeries> series;
    std::vector<ChartBar> bars;          // then y counts rows from the top
    std::vector<std::string> bar_names;  // of colours, in the legend
};

// The document. Points that cannot be drawn (not finite; not positive on a logarithmic axis) are
// left out. Throws bad_data when nothing is left to draw.
std::string draw_svg(const Chart& chart);

// Round numbers, about `count` of them, that cover [low, high]: 1, 2 or 5 times a power of ten, or
// the powers of ten themselves on a logarithmic axis (then low > 0).
std::vector<double> axis_ticks(double low, double high, int count, bool is_logarithmic);

}  // namespace nvllm
