#include "policy/file/problems.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void
policy_problems_add(struct policy_problems *problems, struct kvt_yaml_mark mark, const char *format,
                    ...)
{
    struct policy_problem *problem;
    va_list args;

    if (problems->count == POLICY_PROBLEMS_MAX) {
        problems->left_out++;
        return;
    }
    problem = &problems->list[problems->count++];
    problem->mark = mark;
    va_start(args, format);
    (void)vsnprintf(problem->text, sizeof(problem->text), format, args);
    va_end(args);
}

struct kvt_yaml_mark
policy_problems_mark(const struct policy_problems *problems, struct kvt_yaml_value value,
                     size_t offset)
{
    if (problems->count == POLICY_PROBLEMS_MAX)
        return (struct kvt_yaml_mark){0, 0};
    return kvt_yaml_mark_at(value, offset);
}

static bool
is_before(const struct kvt_yaml_mark *left, const struct kvt_yaml_mark *right)
{
    return left->line != right->line ? left->line < right->line : left->column < right->column;
}

/* There are few: insertion keeps what is equal in its order. */
void
policy_problems_sort(struct policy_problems *problems)
{
    for (size_t i = 1; i < problems->count; i++) {
        const struct policy_problem problem = problems->list[i];
        size_t at = i;

        while (at > 0 && is_before(&problem.mark, &problems->list[at - 1].mark)) {
            problems->list[at] = problems->list[at - 1];
            at--;
        }
        problems->list[at] = problem;
    }
}
