// The tokens of a step.
#include "lib/schedule/planning/token_budget.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE("chunks fill what is left") {
    TokenBudget budget(small_config(), 1000);
    CHECK(budget.left() == 32);
    CHECK(budget.grant(40) == 32);
    budget.spend(30, true);
    CHECK(budget.grant(40) == 2);
    budget.give_back(30, true);
    budget.spend(1, false);
    budget.spend_on_drafts(31);
    CHECK(budget.spent());
    CHECK(budget.left() == 0);
    CHECK(budget.grant(1) == 0);
    CHECK_FALSE(budget.may_prefill());
}

TEST_CASE("without chunks a prompt is granted whole or not at all") {
    SchedulerConfig config = small_config();
    config.enable_chunked_prefill = false;
    TokenBudget budget(config, 10);
    CHECK(budget.grant(11) == 0);
    CHECK(budget.grant(10) == 10);
}

TEST_CASE("only so many prompts are left unfinished") {
    SchedulerConfig config = small_config();
    config.max_num_partial_prefills = 1;
    TokenBudget budget(config, 1000);
    CHECK(budget.grant(40) == 32);
    budget.spend(10, true);
    CHECK(budget.grant(40) == 0);
    CHECK(budget.grant(20) == 20);
}

}  // namespace
}  // namespace nvllm
