#include "table.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool out_of_memory(void)
{
    tool_print_error("out of memory for the output");
    return false;
}

/* ------------------------------------------------------------------------ */

tool_record tool_record_begin(void)
{
    tool_record record = {.json = cJSON_CreateObject()};
    record.failed = !record.json;
    return record;
}

void tool_record_number(tool_record *record, const char *key, double value)
{
    if (!record->failed)
        record->failed = !cJSON_AddNumberToObject(record->json, key, value);
}

void tool_record_string(tool_record *record, const char *key, const char *value)
{
    char *clean = record->failed ? NULL : tool_clean(value);
    record->failed =
        !clean || !cJSON_AddStringToObject(record->json, key, clean);
    free(clean);
}

void tool_record_bool(tool_record *record, const char *key, bool value)
{
    if (!record->failed)
        record->failed = !cJSON_AddBoolToObject(record->json, key, value);
}

void tool_record_numbers(tool_record *record, const char *key,
                         const double *values, uint32_t n)
{
    cJSON *array = record->failed ? NULL : cJSON_CreateArray();
    record->failed = !array;
    for (uint32_t i = 0; i < n && !record->failed; i++)
        record->failed =
            !cJSON_AddItemToArray(array, cJSON_CreateNumber(values[i]));
    if (record->failed || !cJSON_AddItemToObject(record->json, key, array)) {
        cJSON_Delete(array);
        record->failed = true;
    }
}

void tool_record_list(tool_record *record, const char *key,
                      const tool_record *items, uint32_t n)
{
    cJSON *array = record->failed ? NULL : cJSON_CreateArray();
    record->failed = !array;
    for (uint32_t i = 0; i < n; i++)
        if (record->failed || items[i].failed ||
            !cJSON_AddItemToArray(array, items[i].json)) {
            cJSON_Delete(items[i].json);
            record->failed = true;
        }
    if (record->failed || !cJSON_AddItemToObject(record->json, key, array)) {
        cJSON_Delete(array);
        record->failed = true;
    }
}

static bool print_json(const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    if (!text)
        return out_of_memory();
    fputs(text, stdout);
    cJSON_free(text);
    return true;
}

bool tool_record_print(tool_record record)
{
    bool good = record.failed ? out_of_memory() : print_json(record.json);
    cJSON_Delete(record.json);
    return good && tool_write("\n", 1);
}

/* ------------------------------------------------------------------------ */

void tool_table_begin(tool_table *table, const char *format,
                      const tool_column *columns, uint32_t n_columns)
{
    *table = (tool_table){.format = format,
                          .columns = columns,
                          .n_columns = n_columns,
                          .records = cJSON_CreateArray()};
    table->failed = !table->records;
}

static bool keep_cells(tool_table *table, const char *const *cells)
{
    uint32_t n = table->n_columns;
    char **grown =
        realloc(table->cells, (table->n_rows + 1) * n * sizeof *table->cells);
    if (!grown)
        return false;
    table->cells = grown;
    char **row = grown + (size_t)table->n_rows * n;
    bool good = true;
    for (uint32_t i = 0; i < n; i++)
        good = (row[i] = tool_clean(cells[i])) && good;
    table->n_rows++;
    return good;
}

void tool_table_add(tool_table *table, tool_record record,
                    const char *const *cells)
{
    if (record.failed || table->failed || !keep_cells(table, cells) ||
        !cJSON_AddItemToArray(table->records, record.json)) {
        cJSON_Delete(record.json);
        table->failed = true;
        return;
    }
    if (!strcmp(table->format, "jsonl"))
        table->failed = !print_json(record.json) || !tool_write("\n", 1);
}

/* ------------------------------------------------------------------------ */

/* Characters, as far as those of one column go. */
static int text_width(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void print_space(int n, char c)
{
    for (int i = 0; i < n; i++)
        putchar(c);
}

static void print_cell(const char *text, int width, bool right)
{
    int space = width - text_width(text);
    fputs("| ", stdout);
    if (right)
        print_space(space, ' ');
    fputs(text, stdout);
    if (!right)
        print_space(space, ' ');
    putchar(' ');
}

static void print_rule(int width, bool right)
{
    putchar('|');
    print_space(width + 1, '-');
    putchar(right ? ':' : '-');
}

/* Of the widest cell; 0: the column is empty. */
static int column_width(const tool_table *table, uint32_t column)
{
    int width = text_width(table->columns[column].title);
    bool empty = table->n_rows != 0;
    for (uint32_t r = 0; r < table->n_rows; r++) {
        int w = text_width(table->cells[(size_t)r * table->n_columns + column]);
        width = w > width ? w : width;
        empty = empty && !w;
    }
    return empty ? 0 : width;
}

static void print_md(const tool_table *table)
{
    uint32_t n = table->n_columns;
    const tool_column *columns = table->columns;
    int widths[TOOL_COLUMNS_MAX];
    for (uint32_t i = 0; i < n; i++)
        if ((widths[i] = column_width(table, i)))
            print_cell(columns[i].title, widths[i], columns[i].right);
    fputs("|\n", stdout);
    for (uint32_t i = 0; i < n; i++)
        if (widths[i])
            print_rule(widths[i], columns[i].right);
    fputs("|\n", stdout);
    for (uint32_t r = 0; r < table->n_rows; r++) {
        for (uint32_t i = 0; i < n; i++)
            if (widths[i])
                print_cell(table->cells[(size_t)r * n + i], widths[i],
                           columns[i].right);
        fputs("|\n", stdout);
    }
}

static void print_csv_text(const char *text)
{
    bool quoted = strpbrk(text, ",\"") != NULL;
    if (quoted)
        putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    if (quoted)
        putchar('"');
}

/* The names or the values of a record. Arrays stay out; json has them. */
static void print_csv_row(const cJSON *record, bool names)
{
    const cJSON *field;
    bool first = true;
    cJSON_ArrayForEach (field, record) {
        if (cJSON_IsArray(field))
            continue;
        if (!first)
            putchar(',');
        first = false;
        if (names)
            fputs(field->string, stdout);
        else if (cJSON_IsString(field))
            print_csv_text(field->valuestring);
        else
            print_json(field);
    }
    putchar('\n');
}

static void print_csv(const tool_table *table)
{
    const cJSON *record;
    if (table->records->child)
        print_csv_row(table->records->child, true);
    cJSON_ArrayForEach (record, table->records)
        print_csv_row(record, false);
}

static bool print_json_array(const tool_table *table)
{
    const cJSON *record;
    const char *before = "\n  ";
    bool good = true;
    putchar('[');
    cJSON_ArrayForEach (record, table->records) {
        fputs(before, stdout);
        good = good && print_json(record);
        before = ",\n  ";
    }
    fputs("\n]\n", stdout);
    return good;
}

bool tool_table_end(tool_table *table)
{
    bool good = !table->failed || out_of_memory();
    if (good && !strcmp(table->format, "md"))
        print_md(table);
    else if (good && !strcmp(table->format, "csv"))
        print_csv(table);
    else if (good && !strcmp(table->format, "json"))
        good = print_json_array(table);
    cJSON_Delete(table->records);
    for (size_t i = 0; i < (size_t)table->n_rows * table->n_columns; i++)
        free(table->cells[i]);
    free(table->cells);
    return good && tool_write("", 0);
}
