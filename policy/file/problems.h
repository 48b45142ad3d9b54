/*
 * policy/file/problems.h -- everything that is wrong with a text, in the order of the text.
 *
 * Why: who corrects a policy wants to see all of its mistakes at once, each with its place.
 * Ownership: the caller's struct; the name is borrowed.
 * Limits:    POLICY_PROBLEMS_MAX; the others are counted.
 */
#ifndef POLICY_FILE_PROBLEMS_H
#define POLICY_FILE_PROBLEMS_H

#include <stddef.h>

#include "base/text/yaml.h"
#include "kvtier/error.h"

#define POLICY_PROBLEMS_MAX     64
#define POLICY_PROBLEM_TEXT_MAX 320

struct policy_problem {
    struct kvt_yaml_mark mark;
    char text[POLICY_PROBLEM_TEXT_MAX];
};

struct policy_problems {
    struct policy_problem list[POLICY_PROBLEMS_MAX];
    size_t count;
    size_t left_out;
};

void policy_problems_add(struct policy_problems *problems, struct kvt_yaml_mark mark,
                         const char *format, ...) KVT_PRINTF(3, 4);

/** Where byte `offset` of a scalar stands.  Counting to it takes time by the size of the document,
 *  so it is 0:0 once no more problems are kept. */
struct kvt_yaml_mark policy_problems_mark(const struct policy_problems *problems,
                                          struct kvt_yaml_value value, size_t offset);

/** By place; those of one place stay in the order in which they were found. */
void policy_problems_sort(struct policy_problems *problems);

#endif /* POLICY_FILE_PROBLEMS_H */
