// Reads a step log; trees as indented lines and as pictures.
#include "lib/view/draft_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "lib/plot/svg_picture.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

using DraftJson = nlohmann::ordered_json;

constexpr uint64_t kMaxLogBytes = uint64_t{1} << 30;
// Of a proposal; no step verifies as many.
constexpr int32_t kMaxRows = 1024;

// Whether each row follows one before it, and each accepted row the accepted one before it.
bool is_well_formed(const LoggedDrafts& logged) {
    const DraftTokens& drafts = logged.drafts;
    if (drafts.parents.size() != drafts.token_ids.size() || drafts.size() > kMaxRows) return false;
    for (int32_t row = 1; row <= drafts.size(); ++row) {
        if (drafts.parent(row) < 0 || drafts.parent(row) >= row) return false;
    }
    int32_t last = 0;
    for (const int32_t row : logged.accepted_rows) {
        if (row <= last || row > drafts.size() || drafts.parent(row) != last) return false;
        last = row;
    }
    return true;
}

std::vector<LoggedDrafts> drafts_of(const DraftJson& step) {
    std::vector<LoggedDrafts> all;
    const auto list = step.find("drafts");
    if (list == step.end()) return all;
    for (const DraftJson& one : *list) {
        LoggedDrafts logged;
        logged.plan_number = step.at("plan_number").get<uint64_t>();
        logged.sequence = one.at("sequence").get<int64_t>();
        logged.drafts.token_ids = one.at("token_ids").get<std::vector<int32_t>>();
        logged.drafts.parents = one.at("parents").get<std::vector<int32_t>>();
        logged.accepted_rows = one.at("accepted_rows").get<std::vector<int32_t>>();
        if (!is_well_formed(logged)) throw Error(ErrorKind::bad_data, "drafts that are no tree");
        all.push_back(std::move(logged));
    }
    return all;
}

void add_line(std::string_view line, uint64_t plan_number, DraftReport& report) {
    const DraftJson step = DraftJson::parse(line);
    ++report.num_steps;
    std::vector<LoggedDrafts> drafts = drafts_of(step);
    for (const LoggedDrafts& one : drafts) {
        ++report.num_verified;
        report.num_drafts += one.drafts.size();
        report.num_accepted += std::ssize(one.accepted_rows);
    }
    const bool is_shown = plan_number == 0 || step.at("plan_number") == plan_number;
    if (is_shown && !drafts.empty()) report.shown = std::move(drafts);
}

std::string text_of(int32_t token, const Tokenizer* tokenizer) {
    if (tokenizer == nullptr || token < 0 || token >= tokenizer->vocab_size()) return {};
    return printable(tokenizer->token_text(token));
}

bool is_accepted(const LoggedDrafts& logged, int32_t row) {
    return std::ranges::find(logged.accepted_rows, row) != logged.accepted_rows.end();
}

std::vector<int32_t> children_of(const DraftTokens& drafts, int32_t parent) {
    std::vector<int32_t> rows;
    for (int32_t row = parent + 1; row <= drafts.size(); ++row) {
        if (drafts.parent(row) == parent) rows.push_back(row);
    }
    return rows;
}

int32_t depth_of(const DraftTokens& drafts, int32_t row) {
    int32_t depth = 0;
    for (; row > 0; row = drafts.parent(row)) ++depth;
    return depth;
}

int32_t depth_of(const DraftTokens& drafts) {
    int32_t depth = 0;
    for (int32_t row = 1; row <= drafts.size(); ++row) {
        depth = std::max(depth, depth_of(drafts, row));
    }
    return depth;
}

// Rows in the order of a walk: each before those that follow it.
void walk(const DraftTokens& drafts, int32_t parent, std::vector<int32_t>& rows) {
    for (const int32_t row : children_of(drafts, parent)) {
        rows.push_back(row);
        walk(drafts, row, rows);
    }
}

std::vector<int32_t> walk(const DraftTokens& drafts) {
    std::vector<int32_t> rows;
    walk(drafts, 0, rows);
    return rows;
}

std::string heading_of(const LoggedDrafts& logged) {
    return fmt::format("plan {}, sequence {}: {} proposed, {} deep, {} accepted",
                       logged.plan_number, logged.sequence, logged.drafts.size(),
                       depth_of(logged.drafts), logged.accepted_rows.size());
}

double per_step(const DraftReport& report) {
    if (report.num_verified == 0) return 0.0;
    return static_cast<double>(report.num_accepted) / static_cast<double>(report.num_verified);
}

// What has room in a box; no character is cut.
std::string shortened(const std::string& label) {
    constexpr size_t kMostBytes = 12;
    if (label.size() <= kMostBytes) return label;
    const std::string_view begin = std::string_view(label).substr(0, kMostBytes - 2);
    return std::string(begin.substr(0, begin.size() - utf8::incomplete_suffix(begin))) + "..";
}

// One tree of a picture.
class TreePicture {
  public:
    static constexpr double kColumn = 116.0, kRow = 26.0, kWidth = 92.0, kHeight = 20.0;
    static constexpr double kMargin = 12.0, kHeading = 24.0;

    TreePicture(const LoggedDrafts& logged, const Tokenizer* tokenizer, double top)
        : logged_(logged), tokenizer_(tokenizer), top_(top) {
        const DraftTokens& drafts = logged.drafts;
        lines_.assign(static_cast<size_t>(drafts.size()) + 1, 0);
        int32_t last = 0;
        for (const int32_t row : walk(drafts)) {
            const std::vector<int32_t> beside = children_of(drafts, drafts.parent(row));
            // The first that follows stays on the line of what it follows.
            if (row != beside.front()) ++last;
            lines_[static_cast<size_t>(row)] = last;
        }
        num_lines_ = last + 1;
    }

    double height() const { return kHeading + num_lines_ * kRow + kMargin; }
    double width() const { return 2 * kMargin + (depth_of(logged_.drafts) + 1) * kColumn; }

    void draw(SvgPicture& picture) const {
        picture.text(kMargin, top_ + 14.0, heading_of(logged_));
        draw_box(picture, 0, "text", true);
        for (int32_t row = 1; row <= logged_.drafts.size(); ++row) draw_row(picture, row);
    }

  private:
    double x_of(int32_t row) const { return kMargin + depth_of(logged_.drafts, row) * kColumn; }
    double y_of(int32_t row) const {
        return top_ + kHeading + lines_[static_cast<size_t>(row)] * kRow;
    }

    void draw_row(SvgPicture& picture, int32_t row) const {
        const int32_t parent = logged_.drafts.parent(row);
        const bool accepted = is_accepted(logged_, row);
        const double x = x_of(parent) + kWidth;
        const double y = y_of(row) + kHeight / 2;
        picture.path(
            {{x, y_of(parent) + kHeight / 2}, {x + (kColumn - kWidth) / 2, y}, {x_of(row), y}},
            accepted ? SvgColor::series_0 : SvgColor::faint);
        const int32_t token = logged_.drafts.token_ids[static_cast<size_t>(row - 1)];
        const std::string text = text_of(token, tokenizer_);
        draw_box(picture, row, text.empty() ? fmt::format("{}", token) : text, accepted);
    }

    void draw_box(SvgPicture& picture, int32_t row, const std::string& label, bool accepted) const {
        const std::string tip =
            row == 0 ? "the text so far"
                     : fmt::format("row {}: token {}{}", row,
                                   logged_.drafts.token_ids[static_cast<size_t>(row - 1)],
                                   accepted ? ", accepted" : "");
        picture.rectangle(x_of(row), y_of(row), kWidth, kHeight,
                          accepted ? SvgColor::series_0 : SvgColor::empty, tip,
                          accepted ? 0.35 : 1.0);
        picture.text(x_of(row) + kWidth / 2, y_of(row) + 14.0, shortened(label), 11.0,
                     SvgColor::text, "middle");
    }

    const LoggedDrafts& logged_;
    const Tokenizer* tokenizer_;
    double top_;
    int32_t num_lines_ = 1;
    std::vector<int32_t> lines_;  // by rows
};

}  // namespace

DraftReport read_draft_report(const std::filesystem::path& log, uint64_t plan_number) {
    const std::string text = read_file(log, kMaxLogBytes);
    DraftReport report;
    int64_t number = 0;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        ++number;
        try {
            add_line(std::string_view(text).substr(begin, end - begin), plan_number, report);
        } catch (const std::exception& error) {
            throw Error(ErrorKind::bad_data, fmt::format("{}, line {}: no record of a step: {}",
                                                         log.string(), number, error.what()));
        }
        begin = end + 1;
    }
    return report;
}

std::string draft_text(const DraftReport& report, const Tokenizer* tokenizer) {
    TextSheet sheet;
    sheet.row("steps", fmt::format("{}", report.num_steps));
    sheet.row("verifications",
              fmt::format("{}, {} proposed tokens, {} accepted, {:.2f} each", report.num_verified,
                          report.num_drafts, report.num_accepted, per_step(report)));
    for (const LoggedDrafts& logged : report.shown) {
        sheet.gap();
        sheet.line(heading_of(logged));
        for (const int32_t row : walk(logged.drafts)) {
            const int32_t token = logged.drafts.token_ids[static_cast<size_t>(row - 1)];
            const std::string text = text_of(token, tokenizer);
            sheet.line(fmt::format("{:{}}{} {}{}", "", 2 * depth_of(logged.drafts, row),
                                   is_accepted(logged, row) ? '*' : '-', token,
                                   text.empty() ? "" : "  " + text));
        }
    }
    return sheet.text();
}

DraftJson draft_json(const DraftReport& report, const Tokenizer* tokenizer) {
    DraftJson json = {{"schema", "nvllm-inspect.drafts/1"},       {"num_steps", report.num_steps},
                      {"num_verifications", report.num_verified}, {"num_drafts", report.num_drafts},
                      {"num_accepted", report.num_accepted},      {"drafts", DraftJson::array()}};
    for (const LoggedDrafts& logged : report.shown) {
        DraftJson one = {{"plan_number", logged.plan_number},
                         {"sequence", logged.sequence},
                         {"token_ids", logged.drafts.token_ids},
                         {"parents", logged.drafts.parents},
                         {"accepted_rows", logged.accepted_rows}};
        if (tokenizer != nullptr) {
            DraftJson texts = DraftJson::array();
            for (const int32_t token : logged.drafts.token_ids) {
                texts.push_back(text_of(token, tokenizer));
            }
            one["texts"] = std::move(texts);
        }
        json["drafts"].push_back(std::move(one));
    }
    return json;
}

std::string draft_svg(const DraftReport& report, const Tokenizer* tokenizer) {
    double width = 320.0;
    double height = TreePicture::kMargin;
    std::vector<TreePicture> trees;
    for (const LoggedDrafts& logged : report.shown) {
        trees.emplace_back(logged, tokenizer, height);
        width = std::max(width, trees.back().width());
        height += trees.back().height();
    }
    SvgPicture picture(width, height, "Drafts of a step");
    for (const TreePicture& tree : trees) tree.draw(picture);
    return picture.finish();
}

}  // namespace nvllm::view
