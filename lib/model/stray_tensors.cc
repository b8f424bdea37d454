// Modules by their names' parts: what holds numbered layers is a container, and all other modules
// belong to a model whole or not at all.
#include "lib/model/stray_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

namespace nvllm {
namespace {

constexpr size_t kModulesShown = 6;

using Names = std::set<std::string, std::less<>>;

bool is_number(std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, [](char c) {
        return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
}

// "a.b.c" → "a.b", "a" → "".
std::string_view parent_of(std::string_view name) {
    const size_t dot = name.rfind('.');
    return name.substr(0, dot == std::string_view::npos ? 0 : dot);
}

// All modules that hold one of the tensors.
Names modules_of(std::span<const std::string> tensors) {
    Names modules;
    for (const std::string& tensor : tensors) {
        for (std::string_view module = parent_of(tensor); !module.empty();
             module = parent_of(module)) {
            modules.emplace(module);
        }
    }
    return modules;
}

// Those down to the first that holds numbered ones: "model", "model.layers".
Names containers_of(std::span<const std::string> tensors) {
    Names containers;
    for (const std::string& tensor : tensors) {
        std::string_view module = tensor;
        std::string_view outermost;
        for (; !module.empty(); module = parent_of(module)) {
            const size_t dot = module.rfind('.');
            const size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
            if (is_number(module.substr(begin))) outermost = parent_of(module);
        }
        for (; !outermost.empty(); outermost = parent_of(outermost)) containers.emplace(outermost);
    }
    return containers;
}

}  // namespace

StrayTensors find_stray_tensors(std::span<const std::string> read,
                                std::span<const std::string> unread) {
    const Names modules = modules_of(read);
    const Names containers = containers_of(read);
    StrayTensors stray;
    for (const std::string& tensor : unread) {
        bool is_inside = false;
        for (std::string_view module = parent_of(tensor);
             !module.empty() && !containers.contains(module); module = parent_of(module)) {
            is_inside = is_inside || modules.contains(module);
        }
        (is_inside ? stray.inside : stray.outside).push_back(tensor);
    }
    return stray;
}

std::string describe_stray_modules(std::span<const std::string> read,
                                   std::span<const std::string> outside) {
    const Names containers = containers_of(read);
    std::map<std::string, int64_t, std::less<>> counts;
    for (const std::string& tensor : outside) {
        std::string_view module = tensor;
        while (!parent_of(module).empty() && !containers.contains(parent_of(module))) {
            module = parent_of(module);
        }
        ++counts[std::string(module)];
    }
    std::vector<std::string> shown;
    for (const auto& [module, count] : counts) {
        if (shown.size() == kModulesShown) {
            shown.push_back(fmt::format("{} more", counts.size() - kModulesShown));
            break;
        }
        shown.push_back(count == 1 ? module : fmt::format("{} ({} tensors)", module, count));
    }
    return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace nvllm
