// Runs a parsed chat template over its variables, within budgets.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/jinja/syntax.h"
#include "lib/jinja/value.h"

namespace nvllm::chat {

// What a rendering may cost; beyond it, it fails.
struct Budget {
    uint64_t steps = 10'000'000;  // expressions, statements and elements
    uint64_t produced_bytes = 0;  // all texts made on the way
    uint64_t output_bytes = 0;
    int depth = 400;  // expressions and statements within each other
};

// The variables of one scope. Scopes that a macro may still look into are kept until the end.
struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<std::string, Value>> variables;
    bool captured = false;

    Value* find(std::string_view name);
    void set(const std::string& name, Value value);
};

// One rendering. Throws TemplateFailure. Not thread-safe.
class Interpreter {
  public:
    Interpreter(Budget budget, std::tm now);
    ~Interpreter();

    void set_global(const std::string& name, Value value) { globals_[name] = std::move(value); }
    TrackedText run(const Block& block);
    int line() const { return line_; }
    const std::tm& now() const { return now_; }

    // Services for filters, tests, methods and functions.
    void step(uint64_t count = 1);
    // For a walk over so many bytes.
    void step_over(uint64_t extent) { step(1 + extent / 64); }
    void charge(uint64_t bytes);
    // As equal(), compare() and Dict have them, within the budget.
    bool are_equal(const Value& left, const Value& right);
    int order_of(const Value& left, const Value& right, std::string_view operation = "<");
    const Value* find(const Dict& dict, const Value& key);
    void set(Dict& dict, const Value& key, Value value);
    Value text(TrackedText value, bool markup = false);
    Value call(const Value& function, Arguments arguments);
    Value attribute(const Value& value, std::string_view name);
    Value item(const Value& value, const Value& key);
    // All elements; a generator is used up.
    std::vector<Value> elements(const Value& value);
    Value filter(const std::string& name, const Value& value, Arguments arguments);
    bool test(const std::string& name, const Value& value, Arguments arguments);
    // Stores an object until the end of the rendering, when its members are released.
    Value keep(std::shared_ptr<Object> object);
    Value binary(std::string_view operation, const Value& left, const Value& right);
    bool compare_by(std::string_view operation, const Value& left, const Value& right);

    // For macros and recursive loops.
    Value call_macro(const MacroSyntax& macro, Scope* defined_in, Arguments& arguments);
    Value run_loop(const Statement& loop, const Value& iterable, Scope* outer, int depth);
    // For self: the text of a named block, which sees the template's own variables.
    Value run_named_block(const Statement& block);

  private:
    enum class Flow { normal, stop, skip };
    friend class ScopeGuard;

    struct Deeper {
        explicit Deeper(Interpreter& interpreter);
        ~Deeper() { --interpreter.depth_; }
        Deeper(const Deeper&) = delete;
        Interpreter& interpreter;
    };

    void step_for_key(const Dict& dict, const Value& key);
    Flow run_block(const Block& block);
    Flow run_statement(const Statement& statement);
    Flow run_choice(const Statement& statement);
    Flow run_for(const Statement& statement, const Value& iterable, Scope* outer, int depth);
    Flow run_iterations(const Statement& statement, std::vector<Value> items, int depth);
    std::vector<Value> filtered(const Statement& statement, std::vector<Value> items);
    void run_capture(const Statement& statement);
    void run_call(const Statement& statement);
    void run_with(const Statement& statement);
    TrackedText captured(const Block& block);
    void assign(const Target& target, const Value& value);
    void print(const Value& value);
    Value define_macro(const MacroSyntax& macro);
    Value apply_filters(const Expression& chain, const Value& value);

    Value evaluate(const Expression& expression);
    Value evaluate_kind(const Expression& expression);
    Value lookup(const std::string& name);
    Value evaluate_items(const Expression& expression);
    Value evaluate_access(const Expression& expression);
    Value evaluate_call(const Expression& expression);
    Value evaluate_binary(const Expression& expression);
    Value evaluate_conditional(const Expression& expression);
    Value evaluate_dict(const Expression& expression);
    Value evaluate_slice(const Expression& expression);
    Value evaluate_comparison(const Expression& expression);
    Value evaluate_join(const Expression& expression);
    Value evaluate_unary(const Expression& expression);
    Arguments evaluate_arguments(const CallArguments& arguments);

    Budget budget_;
    std::tm now_;
    uint64_t steps_ = 0;
    uint64_t produced_ = 0;
    int depth_ = 0;
    int line_ = 1;
    std::unordered_map<std::string, Value> globals_;
    Scope* scope_ = nullptr;
    Scope* outermost_ = nullptr;
    std::vector<std::unique_ptr<Scope>> kept_scopes_;
    std::vector<std::shared_ptr<Object>> objects_;
    TrackedText* output_ = nullptr;
};

// Arguments matched to the names of parameters. Throws TemplateFailure for too many and for unknown
// ones.
class Parameters {
  public:
    Parameters(std::string_view function, const Arguments& arguments,
               std::initializer_list<std::string_view> names);
    // Null when not given.
    const Value* find(size_t index) const { return values_[index]; }
    // Throws TemplateFailure when not given.
    const Value& required(size_t index) const;
    bool truth(size_t index, bool otherwise) const;
    int64_t integer(size_t index, int64_t otherwise) const;
    TrackedText text(size_t index, std::string_view otherwise) const;

  private:
    std::string function_;
    std::vector<std::string_view> names_;
    std::vector<const Value*> values_;
};

// The tables of names (filters.cc, value_tests.cc, text_methods.cc, container_methods.cc,
// functions.cc).
using FilterBody = Value (*)(Interpreter&, const Value&, Arguments&);
using TestBody = bool (*)(Interpreter&, const Value&, Arguments&);
FilterBody find_filter(std::string_view name);
TestBody find_test(std::string_view name);
// Undefined when the value has no such method.
Value find_method(const Value& value, std::string_view name);
FilterBody find_text_method(std::string_view name);
FilterBody find_text_filter(std::string_view name);
void add_functions(Interpreter& interpreter);

// Python's formatting (format.cc).
TrackedText format_percent(Interpreter& interpreter, const TrackedText& format,
                           const Value& values);
TrackedText format_braces(Interpreter& interpreter, const TrackedText& format,
                          const Arguments& arguments);

// Python's indices: of a sequence of `size`, first to last with a step. Throws TemplateFailure when
// step is 0.
std::vector<size_t> slice_indices(size_t size, const Value& first, const Value& last,
                                  const Value& step);
int64_t integer_of(const Value& value, std::string_view what);
// A copy with HTML's special characters escaped.
TrackedText escaped_html(const TrackedText& text);

}  // namespace nvllm::chat
