// Scales, axes, marks and legend.
#include "lib/plot/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.h"
#include "lib/plot/svg_text.h"

namespace nvllm {
namespace {

constexpr double kWidth = 760, kHeight = 480;
constexpr double kLeft = 80, kRight = 20, kTop = 48, kBottom = 60;
constexpr double kLegendLine = 18;

// Okabe & Ito 2008, without black and yellow.
constexpr std::array kColours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9"};

// Of lines without markers; the first is solid.
constexpr std::array kDashes = {"none", "8 4", "2 4", "12 4 2 4"};

const char* colour(size_t number) { return kColours[number % kColours.size()]; }

const char* dashes(size_t number) { return kDashes[number % kDashes.size()]; }

constexpr const char* kHead =
    R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img">
<title>{title}</title>
<style>
svg {{ background: #ffffff; color: #222222; }}
@media (prefers-color-scheme: dark) {{ svg {{ background: #16181d; color: #e6e6e6; }} }}
text {{ font-family: sans-serif; font-size: 12px; fill: currentColor; }}
.axis {{ stroke: currentColor; stroke-width: 1; }}
.line {{ stroke: currentColor; stroke-width: 2; fill: none; }}
.grid {{ stroke: currentColor; stroke-opacity: 0.15; stroke-width: 1; }}
</style>
<text x="{x}" y="24" text-anchor="middle" style="font-size: 15px; font-weight: bold">{title}</text>
)";

// Without control characters.
std::string escaped(std::string text) {
    std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    return svg_escaped(text);
}

// From values to places along one axis.
struct Scale {
    double low = 0.0, high = 1.0, from = 0.0, to = 1.0;
    bool is_logarithmic = false;

    double part(double value) const {
        if (is_logarithmic) return std::log(value / low) / std::log(high / low);
        return (value - low) / (high - low);
    }
    double place(double value) const { return from + part(value) * (to - from); }
};

class Drawing {
  public:
    explicit Drawing(const Chart& chart) : chart_(chart), height_(kHeight + legend_height()) {
        fit_scales();
    }

    std::string text() {
        out_ = fmt::format(fmt::runtime(kHead), fmt::arg("w", kWidth), fmt::arg("h", height_),
                           fmt::arg("x", kWidth / 2), fmt::arg("title", escaped(chart_.title)));
        draw_axes();
        draw_bars();
        size_t number = 0, line_number = 0;
        for (const ChartSeries& series : chart_.series) {
            draw_series(series, series.has_markers ? number++ : line_number++);
        }
        draw_legend();
        return out_ + "</svg>\n";
    }

  private:
    double legend_height() const {
        const auto named = std::ranges::count_if(
            chart_.series, [](const ChartSeries& series) { return !series.name.empty(); });
        return kLegendLine *
               static_cast<double>(chart_.bar_names.size() + static_cast<size_t>(named));
    }

    bool drawable(double x, double y) const {
        return std::isfinite(x) && std::isfinite(y) && (!chart_.x_is_logarithmic || x > 0.0) &&
               (!chart_.y_is_logarithmic || y > 0.0);
    }

    void fit_scales() {
        std::vector<double> xs, ys;
        for (const ChartSeries& series : chart_.series) {
            for (const auto& [x, y] : series.points) {
                if (!drawable(x, y)) continue;
                xs.push_back(x);
                ys.push_back(y);
            }
        }
        for (const ChartBar& bar : chart_.bars) {
            xs.insert(xs.end(), {bar.begin, bar.end});
            ys.insert(ys.end(), {0.0, static_cast<double>(bar.row + 1)});
        }
        if (xs.empty()) throw Error(ErrorKind::bad_data, "there is nothing to draw");
        x_ = fitted(xs, chart_.x_is_logarithmic, kLeft, kWidth - kRight);
        y_ = fitted(ys, chart_.y_is_logarithmic, kHeight - kBottom, kTop);
        if (!chart_.bars.empty()) std::swap(y_.from, y_.to);
    }

    static Scale fitted(const std::vector<double>& values, bool is_logarithmic, double from,
                        double to) {
        auto [low, high] = std::minmax_element(values.begin(), values.end());
        const double begin = is_logarithmic ? *low : std::min(0.0, *low);
        double end = *high;
        if (end <= begin) end = begin + (begin == 0.0 ? 1.0 : std::fabs(begin));
        const std::vector<double> ticks = axis_ticks(begin, end, 6, is_logarithmic);
        return {std::min(begin, ticks.front()), std::max(end, ticks.back()), from, to,
                is_logarithmic};
    }

    void line(const char* style, double x1, double y1, double x2, double y2) {
        out_ += fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)"
                            "\n",
                            style, x1, y1, x2, y2);
    }
    void label(double x, double y, const char* anchor, const std::string& text,
               const std::string& more = "") {
        out_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)"
                            "\n",
                            x, y, anchor, more, escaped(text));
    }

    void draw_axes() {
        const double bottom = kHeight - kBottom;
        for (const double tick : axis_ticks(x_.low, x_.high, 6, x_.is_logarithmic)) {
            line("grid", x_.place(tick), kTop, x_.place(tick), bottom);
            label(x_.place(tick), bottom + 18, "middle", fmt::format("{:.4g}", tick));
        }
        for (const double tick : axis_ticks(y_.low, y_.high, 6, y_.is_logarithmic)) {
            if (!chart_.bars.empty() && tick != std::floor(tick)) continue;  // rows are whole
            line("grid", kLeft, y_.place(tick), kWidth - kRight, y_.place(tick));
            label(kLeft - 8, y_.place(tick) + 4, "end", fmt::format("{:.4g}", tick));
        }
        line("axis", kLeft, bottom, kWidth - kRight, bottom);
        line("axis", kLeft, kTop, kLeft, bottom);
        label((kLeft + kWidth - kRight) / 2, bottom + 42, "middle", chart_.x_label);
        const double middle = (kTop + bottom) / 2;
        label(20, middle, "middle", chart_.y_label,
              fmt::format(" transform=\"rotate(-90 20 {:.1f})\"", middle));
    }

    void draw_bars() {
        for (const ChartBar& bar : chart_.bars) {
            const double top = y_.place(static_cast<double>(bar.row));
            const double bottom = y_.place(static_cast<double>(bar.row + 1));
            const double left = x_.place(bar.begin);
            out_ += fmt::format(
                R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}"/>)"
                "\n",
                left, top, std::max(0.5, x_.place(bar.end) - left),
                std::max(0.5, (bottom - top) * 0.85), colour(bar.colour));
        }
    }

    // `number` counts those with markers, or those without.
    void draw_series(const ChartSeries& series, size_t number) {
        std::string path;
        for (size_t i = 0; i < series.points.size(); ++i) {
            const auto& [x, y] = series.points[i];
            if (!drawable(x, y)) continue;
            path +=
                fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : " L", x_.place(x), y_.place(y));
            const std::string label = i < series.labels.size() ? series.labels[i] : "";
            if (series.has_markers) draw_marker(number, x_.place(x), y_.place(y), label);
        }
        if (!series.has_line || path.empty()) return;
        if (!series.has_markers) return draw_dashes(number, path);
        out_ += fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2"/>)"
                            "\n",
                            path, colour(number));
    }

    void draw_dashes(size_t number, const std::string& path) {
        out_ += fmt::format(R"(<path class="line" d="{}" stroke-dasharray="{}"/>)"
                            "\n",
                            path, dashes(number));
    }

    // The shape moves on by one with each round of colours.
    void draw_marker(size_t number, double x, double y, const std::string& label = "") {
        static constexpr std::array kShapes = {"M{0} {1}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
                                               "M{0} {1}m-4 -4h8v8h-8z", "M{0} {1}m0 -5l5 9h-10z",
                                               "M{0} {1}m0 -5l5 5l-5 5l-5 -5z"};
        const size_t shape = (number + number / kColours.size()) % kShapes.size();
        out_ += fmt::format(R"(<path d="{}" fill="{}">{}</path>)"
                            "\n",
                            fmt::format(fmt::runtime(kShapes[shape]), fmt::format("{:.2f}", x),
                                        fmt::format("{:.2f}", y)),
                            colour(number),
                            label.empty() ? "" : "<title>" + escaped(label) + "</title>");
    }

    void draw_legend() {
        double y = kHeight;
        size_t number = 0, line_number = 0;
        const auto add = [&](const std::string& name, bool has_markers) {
            const size_t own = has_markers ? number++ : line_number++;
            if (name.empty()) return;
            if (has_markers) {
                draw_marker(own, kLeft + 6, y - 4);
            } else {
                draw_dashes(own, fmt::format("M{} {}h24", kLeft - 10, y - 4));
            }
            label(kLeft + 22, y, "start", name);
            y += kLegendLine;
        };
        for (const std::string& name : chart_.bar_names) add(name, true);
        for (const ChartSeries& series : chart_.series) add(series.name, series.has_markers);
    }

    const Chart& chart_;
    double height_;
    Scale x_, y_;
    std::string out_;
};

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count, bool is_logarithmic) {
    std::vector<double> ticks;
    if (is_logarithmic) {
        const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
        for (double power = first; power <= last; power += 1.0) {
            ticks.push_back(std::pow(10.0, power));
        }
        return ticks;
    }
    const double rough = (high - low) / count;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = 10.0 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= rough) {
            step = factor * power;
            break;
        }
    }
    const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
    for (double i = first; i <= last; i += 1.0) ticks.push_back(i * step);
    return ticks;
}

std::string draw_svg(const Chart& chart) { return Drawing(chart).text(); }

}  // namespace nvllm
