// Items and ranges.
#include "lib/measure/number_list.h"

#include <fmt/format.h>

#include "kernels/error.h"
#include "lib/base/option_values.h"

namespace nvllm {
namespace {

constexpr size_t kMaxNumbers = 10000;

class ListReader {
  public:
    ListReader(const std::string& text, const std::string& flag, int32_t most)
        : text_(text), flag_(flag), max_(most) {}

    std::vector<int32_t> read() {
        for (size_t begin = 0; begin <= text_.size();) {
            const size_t end = std::min(text_.find(',', begin), text_.size());
            read_item(text_.substr(begin, end - begin));
            begin = end + 1;
        }
        return std::move(numbers_);
    }

  private:
    [[noreturn]] void fail() const {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: '{}' is not a list of numbers from 0 to {} such as 512,1024, "
                                "128-512+128 or 1-8*2",
                                flag_, text_, max_));
    }
    int32_t number(const std::string& text) const {
        const auto value = parse_integer<int32_t>(text);
        if (!value || *value < 0 || *value > max_) fail();
        return *value;
    }
    void add(int64_t value) {
        if (numbers_.size() == kMaxNumbers) fail();
        numbers_.push_back(static_cast<int32_t>(value));
    }
    void read_item(const std::string& item) {
        const size_t dash = item.find('-');
        if (dash == std::string::npos) return add(number(item));
        const size_t sign = item.find_first_of("+*", dash);
        const int64_t first = number(item.substr(0, dash));
        const int64_t last =
            number(item.substr(dash + 1, sign == std::string::npos ? sign : sign - dash - 1));
        const int64_t step = sign == std::string::npos ? 1 : number(item.substr(sign + 1));
        const bool multiplies = sign != std::string::npos && item[sign] == '*';
        if (step < (multiplies ? 2 : 1) || (multiplies && first == 0) || first > last) fail();
        for (int64_t value = first; value <= last;
             value = multiplies ? value * step : value + step) {
            add(value);
        }
    }

    const std::string& text_;
    const std::string& flag_;
    int32_t max_;
    std::vector<int32_t> numbers_;
};

}  // namespace

std::vector<int32_t> parse_number_list(const std::string& text, const std::string& flag,
                                       int32_t most) {
    return ListReader(text, flag, most).read();
}

}  // namespace nvllm
