#include "memory.h"

#include "text.h"

#include <math.h>
#include <stdio.h>

#define MORE ((uint64_t)1 << 30)

static const char *const phases[] = {"decode", "prompt"};

/* ------------------------------------------------------------------------ */
/* What there is                                                            */

/* Before the next plan is asked for: the session may then drop this one. */
static void note_plan(tool_memory *m, uint32_t i, const clv_plan *plan)
{
    m->ns[i] = clv_plan_summarise(plan).predicted_ns;
    for (uint32_t r = 0; r < m->n_rows; r++) {
        const clv_memory_use use =
            clv_plans_memory(&plan, 1, NULL, m->rows[r].dev);
        m->rows[r].plans[i].streamed = use.streamed;
        m->rows[r].plans[i].in_place = use.in_place;
        m->rows[r].plans[i].from_file = use.from_file;
    }
}

/* Asked before anything is prepared: what the plan that comes first is given
 * there belongs to it. */
static clv_status weigh(tool_memory *m, clv_session *session, uint32_t plan)
{
    for (uint32_t r = 0; r < m->n_rows && m->rows[r].dev; r++)
        CLV_TRY(clv_session_weigh(session, m->n_tokens[plan], m->rows[r].dev,
                                  MORE, &m->rows[r].plans[plan].more_ns));
    return CLV_OK;
}

/* A row for each memory, the host's last; true: some device cannot hold all
 * weights. */
static bool add_rows(tool_memory *m, const clv_context *ctx, uint64_t weights)
{
    bool scarce = false;
    for (uint32_t d = 0; d < clv_context_device_count(ctx); d++) {
        const clv_device *dev = clv_context_device(ctx, d);
        const uint64_t budget = clv_plans_memory(NULL, 0, NULL, dev).budget;
        scarce |= budget && weights > budget;
        if (budget && m->n_rows + 1 < TOOL_MEMORY_ROWS)
            m->rows[m->n_rows++].dev = dev;
    }
    m->n_rows++;
    return scarce;
}

/* Whether the host's memory does not hold what is used there. */
static bool reads_files(const tool_memory *m)
{
    const tool_memory_row *host = &m->rows[m->n_rows - 1];
    return host->plans[0].from_file || host->plans[1].from_file;
}

clv_status tool_memory_look(const tool_env *env, const clv_model *model,
                            clv_session *session, bool single,
                            uint32_t n_prompt, bool more, tool_memory *out)
{
    tool_memory *m = out;
    const clv_plan *plan;
    uint32_t first = 1;
    *m = (tool_memory){.n_tokens = {single, n_prompt}};
    const bool scarce = add_rows(m, env->ctx, clv_model_describe(model)->size);
    if (scarce)
        m->n_tokens[0] = 1;
    if (scarce)
        CLV_TRY(clv_session_first(session, &first));
    for (uint32_t turn = 0; turn < 2; turn++) {
        const uint32_t i = first > 1 ? 1 - turn : turn;
        if (!m->n_tokens[i])
            continue;
        if (scarce && more)
            CLV_TRY(weigh(m, session, i));
        CLV_TRY(clv_session_prepare(session, m->n_tokens[i], &plan));
        note_plan(m, i, plan);
    }
    for (uint32_t r = 0; r < m->n_rows; r++)
        m->rows[r].use = clv_session_memory(session, m->rows[r].dev);
    if (m->n_rows == 1 && !reads_files(m))
        m->n_rows = 0; /* there is nothing to tell */
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* What is shown of it                                                      */

static const char *name_of(const tool_memory_row *row)
{
    return row->dev ? clv_device_id(row->dev) : "host";
}

/* Nothing where there is nothing. */
static const char *bytes_or_none(uint64_t bytes, char text[TOOL_QUANTITY_MAX])
{
    if (bytes)
        return tool_bytes(bytes, text);
    text[0] = 0;
    return text;
}

static double rate(const tool_memory *m, uint32_t plan, double ns)
{
    return ns > 0 ? m->n_tokens[plan] * 1e9 / ns : 0;
}

/* More memory never makes it slower: the plan as it is would do. */
static double more_rate(const tool_memory *m, uint32_t plan, double ns)
{
    return fmax(rate(m, plan, ns), rate(m, plan, m->ns[plan]));
}

/* "decode 10.1 tok/s instead of 8.7", of the plans that it was asked for. */
static void more_text(const tool_memory *m, const tool_memory_row *row,
                      char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < 2 && used < size; i++)
        if (row->plans[i].more_ns > 0)
            used += (size_t)snprintf(
                text + used, size - used, "%s%s %.1f tok/s instead of %.1f",
                used ? ", " : "", phases[i],
                more_rate(m, i, row->plans[i].more_ns), rate(m, i, m->ns[i]));
}

/* What a line of quantities consists of, and what follows each. */
static void print_row(const tool_memory *m, const tool_memory_row *row,
                      const char *title)
{
    const struct {
        uint64_t bytes;
        const char *of;
    } parts[] = {{row->use.weights, " of weights"},
                 {row->plans[0].in_place, " used in place a token"},
                 {row->plans[1].in_place, " used in place a batch"},
                 {row->plans[0].from_file, " read from the file a token"},
                 {row->plans[1].from_file, " read from the file a batch"},
                 {row->use.states, " of KV cache"},
                 {row->use.values, " of values"},
                 {row->dev ? row->use.kept : 0, " of weights among them"},
                 {row->dev ? row->plans[0].streamed : 0, " streamed a token"},
                 {row->dev ? row->plans[1].streamed : 0, " streamed a batch"},
                 {row->use.budget, " in all"}};
    char text[TOOL_QUANTITY_MAX], more[160];
    bool any = false;
    fprintf(stderr, "%-8s %s: ", title, name_of(row));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes) {
            fprintf(stderr, "%s%s%s", any ? ", " : "",
                    tool_bytes(parts[i].bytes, text), parts[i].of);
            any = true;
        }
    more_text(m, row, more, sizeof more);
    fprintf(stderr, "%s%s\n", *more ? "; 1 GiB more: " : "", more);
}

void tool_memory_print(const tool_memory *m)
{
    for (uint32_t r = 0; r < m->n_rows; r++)
        print_row(m, &m->rows[r], r ? "" : "memory");
}

static tool_record record_of(const tool_memory *m, const tool_memory_row *row)
{
    tool_record record = tool_record_begin();
    tool_record_string(&record, "memory", name_of(row));
    tool_record_number(&record, "budget", (double)row->use.budget);
    tool_record_number(&record, "weights", (double)row->use.weights);
    tool_record_number(&record, "kv_cache", (double)row->use.states);
    tool_record_number(&record, "values", (double)row->use.values);
    if (row->dev)
        tool_record_number(&record, "kept", (double)row->use.kept);
    for (uint32_t i = 0; i < 2; i++) {
        const tool_memory_plan *plan = &row->plans[i];
        const struct {
            const char *name;
            double value;
            bool known;
        } figures[] = {{"streamed", (double)plan->streamed, true},
                       {"in_place", (double)plan->in_place, true},
                       {"from_file", (double)plan->from_file, true},
                       {"ts", rate(m, i, m->ns[i]), m->ns[i] > 0},
                       {"ts_with_1_gib_more", more_rate(m, i, plan->more_ns),
                        plan->more_ns > 0}};
        char key[48];
        for (size_t f = 0; f < sizeof figures / sizeof *figures; f++) {
            snprintf(key, sizeof key, "%s_%s", phases[i], figures[f].name);
            if (m->n_tokens[i] && figures[f].known)
                tool_record_number(&record, key, figures[f].value);
        }
    }
    return record;
}

bool tool_memory_table(const tool_memory *m, const char *format,
                       tool_table *out)
{
    static const tool_column columns[] = {{"memory", false},
                                          {"budget", true},
                                          {"weights", true},
                                          {"KV cache", true},
                                          {"values", true},
                                          {"streamed a token", true},
                                          {"streamed a batch", true},
                                          {"in place a token", true},
                                          {"in place a batch", true},
                                          {"1 GiB more brings", false},
                                          {"from the file a token", true},
                                          {"from the file a batch", true}};
    if (!m->n_rows)
        return false;
    tool_table_begin(out, format, columns,
                     sizeof columns / sizeof *columns -
                         (reads_files(m) ? 0 : 2));
    for (uint32_t r = 0; r < m->n_rows; r++) {
        const tool_memory_row *row = &m->rows[r];
        char text[10][TOOL_QUANTITY_MAX], more[160];
        more_text(m, row, more, sizeof more);
        const char *cells[] = {name_of(row),
                               bytes_or_none(row->use.budget, text[0]),
                               bytes_or_none(row->use.weights, text[1]),
                               bytes_or_none(row->use.states, text[2]),
                               bytes_or_none(row->use.values, text[3]),
                               bytes_or_none(row->plans[0].streamed, text[4]),
                               bytes_or_none(row->plans[1].streamed, text[5]),
                               bytes_or_none(row->plans[0].in_place, text[6]),
                               bytes_or_none(row->plans[1].in_place, text[7]),
                               more,
                               bytes_or_none(row->plans[0].from_file, text[8]),
                               bytes_or_none(row->plans[1].from_file, text[9])};
        tool_table_add(out, record_of(m, row), cells);
    }
    return true;
}
