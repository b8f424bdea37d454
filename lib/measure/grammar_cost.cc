#include "lib/measure/grammar_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/statistics.h"
#include "lib/grammar/grammar_matcher.h"
#include "lib/grammar/thread_time.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

// Schemas keep the order of their properties, which answers follow.
GrammarCase read_case(const std::string& line, const std::string& where) {
    const Json object = parse_ordered_json(line, where);
    const auto fail = [&](const char* what) { throw Error(ErrorKind::bad_data, where + what); };
    if (!object.is_object() || !object.contains("schema")) fail(": has no \"schema\"");
    GrammarCase read{where, write_json(object["schema"]), {}};
    const Json lists = {{"answers", object.value("answers", Json::array())},
                        {"tests", object.value("tests", Json::array())}};
    if (!lists["answers"].is_array()) fail(": \"answers\" is no list");
    if (!lists["tests"].is_array()) fail(": \"tests\" is no list");
    for (const Json& answer : lists["answers"]) read.answers.push_back(write_json(answer));
    for (const Json& test : lists["tests"]) {
        if (!test.is_object() || !test.contains("data") || !test.contains("valid"))
            fail(": \"tests\" has an entry without \"data\" or \"valid\"");
        if (test["valid"] == true) read.answers.push_back(write_json(test["data"]));
    }
    return read;
}

// Of this thread's own time: what else runs does not count.
class Stopwatch {
  public:
    double us() const {
        return std::chrono::duration<double, std::micro>(thread_time() - begin_).count();
    }

  private:
    ThreadTime begin_ = thread_time();
};

// The nth token that a mask allows.
int32_t allowed_token(std::span<const uint32_t> mask, size_t n) {
    for (size_t word = 0; word < mask.size(); ++word) {
        uint32_t bits = mask[word];
        const auto count = static_cast<size_t>(std::popcount(bits));
        if (n >= count) {
            n -= count;
            continue;
        }
        for (; n > 0; --n) bits &= bits - 1;
        return static_cast<int32_t>(word * 32) + std::countr_zero(bits);
    }
    return -1;
}

class CaseRun {
  public:
    CaseRun(SharedGrammar grammar, int32_t vocab_size, GrammarCost& cost)
        : grammar_(std::move(grammar)),
          mask_((static_cast<size_t>(vocab_size) + 31) / 32),
          cost_(cost) {}

    void read(std::span<const int32_t> tokens) {
        GrammarMatcher matcher(grammar_);
        for (const int32_t token : tokens) {
            fill(matcher);
            if (!accept(matcher, token)) {
                ++cost_.refused_answers;
                return;
            }
        }
        fill(matcher);  // before the end token
        if (!matcher.may_end()) ++cost_.refused_answers;
    }

    void walk(int32_t most_tokens, std::mt19937_64& random) {
        GrammarMatcher matcher(grammar_);
        for (int32_t i = 0; i < most_tokens && !matcher.has_ended(); ++i) {
            fill(matcher);
            size_t count = 0;
            for (const uint32_t word : mask_) count += static_cast<size_t>(std::popcount(word));
            if (count == 0) return;
            accept(matcher, allowed_token(mask_, random() % count));
        }
    }

  private:
    void fill(GrammarMatcher& matcher) {
        const Stopwatch watch;
        const bool restricts = matcher.fill_mask(mask_);
        cost_.mask_us.push_back(watch.us());
        if (!restricts) std::ranges::fill(mask_, ~uint32_t{0});
    }
    bool accept(GrammarMatcher& matcher, int32_t token) {
        const Stopwatch watch;
        const bool accepted = matcher.accept(token);
        cost_.accept_us.push_back(watch.us());
        return accepted;
    }

    SharedGrammar grammar_;
    std::vector<uint32_t> mask_;
    GrammarCost& cost_;
};

struct Field {
    const char* name;
    std::vector<double> GrammarCost::*samples;
    const char* label;
};
constexpr Field kFields[] = {{"mask_us", &GrammarCost::mask_us, "mask (us)"},
                             {"accept_us", &GrammarCost::accept_us, "token taken (us)"}};

struct Totals {
    explicit Totals(std::span<const GrammarCost> costs) {
        for (const GrammarCost& cost : costs) {
            refused_answers += cost.refused_answers;
            if (cost.refusal)
                ++refused;
            else
                compile_ms.push_back(cost.compile_ms);
        }
    }

    size_t refused = 0;
    int32_t refused_answers = 0;
    std::vector<double> compile_ms;
};

std::vector<double> all_of(std::span<const GrammarCost> costs, const Field& field) {
    std::vector<double> all;
    for (const GrammarCost& cost : costs) {
        const auto& samples = cost.*field.samples;
        all.insert(all.end(), samples.begin(), samples.end());
    }
    return all;
}

}  // namespace

std::vector<GrammarCase> read_grammar_cases(const std::filesystem::path& file) {
    std::istringstream lines(read_file(file));
    std::vector<GrammarCase> cases;
    std::string line;
    for (size_t number = 1; std::getline(lines, line); ++number) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        cases.push_back(read_case(line, fmt::format("{}:{}", file.string(), number)));
    }
    if (cases.empty()) throw Error(ErrorKind::bad_data, file.string() + ": no schema in it");
    return cases;
}

void check_answers(std::span<const GrammarCase> cases, const GrammarCostOptions& options) {
    const bool has_some =
        std::ranges::any_of(cases, [](const GrammarCase& each) { return !each.answers.empty(); });
    if (options.walks > 0 || has_some) return;
    throw Error(ErrorKind::usage,
                "no line has a valid document in \"answers\" or \"tests\"; --walks draws answers");
}

std::vector<GrammarCost> measure_grammars(const std::shared_ptr<const Tokenizer>& tokenizer,
                                          int32_t vocab_size, std::span<const GrammarCase> cases,
                                          const GrammarCostOptions& options,
                                          const std::function<void(size_t)>& done) {
    std::vector<int32_t> ends;
    if (const auto end = tokenizer->eos_id()) ends.push_back(*end);
    GrammarCompiler compiler(tokenizer, vocab_size, ends);
    // The table of tokens, which is made once, is no part of the time.
    (void)compiler.compile({GrammarKind::json_object, ""}).ok();
    std::mt19937_64 random(options.seed);
    std::vector<GrammarCost> costs;
    for (const GrammarCase& each : cases) {
        GrammarCost& cost = costs.emplace_back(GrammarCost{.where = each.where});
        const Stopwatch watch;
        const auto grammar = compiler.compile({GrammarKind::json_schema, each.schema});
        cost.compile_ms = watch.us() / 1000.0;
        if (!grammar.ok()) {
            cost.refusal = grammar.fault().message;
        } else {
            CaseRun run(*grammar, vocab_size, cost);
            for (const std::string& answer : each.answers) {
                const auto tokens = tokenizer->encode(answer, {.add_special_tokens = false});
                for (int32_t i = 0; i < options.repeats; ++i) run.read(tokens);
            }
            for (int32_t i = 0; i < options.walks; ++i) run.walk(options.walk_tokens, random);
        }
        if (done) done(costs.size());
    }
    return costs;
}

Json grammar_cost_json(std::span<const GrammarCost> costs) {
    const Totals totals(costs);
    Json object = {{"num_schemas", costs.size()},
                   {"num_refused_schemas", totals.refused},
                   {"num_refused_answers", totals.refused_answers},
                   {"num_masks", all_of(costs, kFields[0]).size()},
                   {"mean_compile_ms", mean(totals.compile_ms)},
                   {"max_compile_ms", range_of(totals.compile_ms).high}};
    for (const Field& field : kFields) {
        const std::vector<double> samples = all_of(costs, field);
        object[fmt::format("mean_{}", field.name)] = mean(samples);
        object[fmt::format("median_{}", field.name)] = median(samples);
        object[fmt::format("p99_{}", field.name)] = percentile(samples, 99);
        object[fmt::format("max_{}", field.name)] = range_of(samples).high;
    }
    object["samples"] = Json::array();
    for (const GrammarCost& cost : costs) {
        Json sample = {{"where", cost.where}};
        if (cost.refusal) {
            sample["refusal"] = *cost.refusal;
        } else {
            sample.update({{"compile_ms", cost.compile_ms},
                           {"num_masks", cost.mask_us.size()},
                           {"mean_mask_us", mean(cost.mask_us)},
                           {"max_mask_us", range_of(cost.mask_us).high},
                           {"mean_accept_us", mean(cost.accept_us)},
                           {"refused_answers", cost.refused_answers}});
        }
        object["samples"].push_back(std::move(sample));
    }
    return object;
}

std::string grammar_cost_table(std::span<const GrammarCost> costs) {
    const Totals totals(costs);
    std::string text =
        fmt::format("{:<18} {:>10} {:>10} {:>10} {:>10}\n", "", "mean", "median", "p99", "max");
    const auto row = [&](const char* label, std::span<const double> samples) {
        text +=
            fmt::format("{:<18} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", label, mean(samples),
                        median(samples), percentile(samples, 99), range_of(samples).high);
    };
    for (const Field& field : kFields) row(field.label, all_of(costs, field));
    row("compiling (ms)", totals.compile_ms);
    return text + fmt::format("{} schemas, {} refused; {} masks; {} answers refused\n",
                              costs.size(), totals.refused, all_of(costs, kFields[0]).size(),
                              totals.refused_answers);
}

}  // namespace nvllm
