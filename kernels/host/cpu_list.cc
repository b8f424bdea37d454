// Reads and writes sets of logical processors.
#include "kernels/host/cpu_list.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace nvllm {
namespace {

std::string_view without_spaces_around(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

std::optional<int> parse_cpu(std::string_view text) {
    int cpu = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (cpu < 0 || cpu >= kMaxCpus) return std::nullopt;
    return cpu;
}

// "3" or "3-5", added to `cpus`.
bool add_range(std::string_view text, CpuList& cpus) {
    const size_t dash = text.find('-');
    const auto first = parse_cpu(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_cpu(text.substr(dash + 1));
    if (!first || !last || *last < *first) return false;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    return true;
}

std::optional<int> hexadecimal_digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return std::nullopt;
}

std::optional<CpuList> parse_hexadecimal(std::string_view text) {
    if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
    if (text.size() > kMaxCpus / 4) return std::nullopt;
    CpuList cpus;
    for (size_t place = 0; place < text.size(); ++place) {
        const auto digit = hexadecimal_digit(text[text.size() - 1 - place]);
        if (!digit) return std::nullopt;
        for (int bit = 0; bit < 4; ++bit) {
            if ((*digit >> bit & 1) != 0) cpus.push_back(static_cast<int>(place) * 4 + bit);
        }
    }
    return cpus;
}

void append_run(std::string& text, int first, int last) {
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last == first) return;
    text += (last == first + 1 ? ',' : '-') + std::to_string(last);
}

}  // namespace

std::optional<CpuList> parse_cpu_list(std::string_view text) {
    text = without_spaces_around(text);
    CpuList cpus;
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        if (!add_range(text.substr(0, comma), cpus)) return std::nullopt;
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    std::ranges::sort(cpus);
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::optional<CpuList> parse_cpu_mask(std::string_view text) {
    const bool is_list = text.find_first_of(",-") != std::string_view::npos;
    std::optional<CpuList> cpus = is_list ? parse_cpu_list(text) : parse_hexadecimal(text);
    if (!cpus || cpus->empty()) return std::nullopt;
    return cpus;
}

std::string format_cpu_list(const CpuList& cpus) {
    std::string text;
    for (size_t begin = 0; begin < cpus.size();) {
        size_t end = begin + 1;
        while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
        append_run(text, cpus[begin], cpus[end - 1]);
        begin = end;
    }
    return text;
}

CpuList intersection(const CpuList& one, const CpuList& other) {
    CpuList both;
    std::ranges::set_intersection(one, other, std::back_inserter(both));
    return both;
}

}  // namespace nvllm
