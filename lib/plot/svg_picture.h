// Small pictures as SVG: self-contained, readable on light and on dark ground.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nvllm {

// Colours by what they mean; each has a shade for light and for dark ground. series_0 to series_5
// are told apart by most colour-blind people too.
enum class SvgColor {
    text,
    faint,  // axes, labels of little weight
    empty,
    series_0,
    series_1,
    series_2,
    series_3,
    series_4,
    series_5
};

class SvgPicture {
  public:
    SvgPicture(double width, double height, std::string_view title);

    // `tip` is shown by viewers when a pointer rests on it. `strength` 0 to 1: opacity.
    void rectangle(double x, double y, double width, double height, SvgColor color,
                   std::string_view tip = {}, double strength = 1.0);
    void text(double x, double y, std::string_view text, double size = 12.0,
              SvgColor color = SvgColor::text, const char* anchor = "start");
    void line(double x1, double y1, double x2, double y2, SvgColor color);
    void path(const std::vector<std::pair<double, double>>& points, SvgColor color);

    std::string finish() const;

  private:
    double width_;
    double height_;
    std::string title_;
    std::string body_;
};

}  // namespace nvllm
