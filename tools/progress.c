#include "progress.h"
#include "interrupt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_NS 50000000u

void tool_progress_init(tool_progress *progress, bool enabled)
{
    *progress = (tool_progress){.enabled = enabled && isatty(STDERR_FILENO)};
    pthread_mutex_init(&progress->lock, NULL);
}

void tool_progress_finish(tool_progress *progress)
{
    tool_progress_clear(progress);
    tool_progress_release(progress, false);
    pthread_mutex_destroy(&progress->lock);
}

static void erase(tool_progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}

static void draw(tool_progress *progress, const char *what, double fraction)
{
    struct winsize window;
    int columns = 80;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col > 0)
        columns = window.ws_col;
    int width = columns - (int)strlen(what) - 10;
    if (width > 40)
        width = 40;
    int full = (int)(fraction * width);
    fprintf(stderr, "\r\033[K%.*s", columns - 7, what);
    if (width >= 8) {
        fputs(" [", stderr);
        for (int i = 0; i < width; i++)
            fputc(i < full ? '#' : '.', stderr);
        fputc(']', stderr);
    }
    fprintf(stderr, " %3.0f%%", fraction * 100);
    fflush(stderr);
    progress->shown = true;
}

int tool_progress_report(void *ctx, const char *what, double fraction)
{
    tool_progress *progress = ctx;
    if (tool_interrupted())
        return 1;
    if (!progress->enabled)
        return 0;
    uint64_t now = clv_now_ns();
    fraction = !(fraction > 0) ? 0 : fraction > 1 ? 1 : fraction;
    pthread_mutex_lock(&progress->lock);
    if (fraction >= 1) {
        erase(progress);
    } else if (now - progress->drawn_ns >= REDRAW_NS) {
        progress->drawn_ns = now;
        draw(progress, what, fraction);
    }
    pthread_mutex_unlock(&progress->lock);
    return 0;
}

void tool_progress_clear(tool_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    erase(progress);
    fflush(stderr);
    pthread_mutex_unlock(&progress->lock);
}

/* False when out of memory. */
static bool keep(tool_progress *progress, const char *line)
{
    size_t used = progress->held ? strlen(progress->held) : 0;
    size_t size = used + strlen(line) + 2;
    char *grown = realloc(progress->held, size);
    if (!grown)
        return false;
    snprintf(grown + used, size - used, "%s\n", line);
    progress->held = grown;
    return true;
}

void tool_progress_line(tool_progress *progress, const char *line)
{
    pthread_mutex_lock(&progress->lock);
    if (!progress->holds || !keep(progress, line)) {
        erase(progress);
        fprintf(stderr, "%s\n", line);
    }
    pthread_mutex_unlock(&progress->lock);
}

void tool_progress_hold(tool_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    progress->holds = true;
    pthread_mutex_unlock(&progress->lock);
}

void tool_progress_release(tool_progress *progress, bool print)
{
    pthread_mutex_lock(&progress->lock);
    if (print && progress->held) {
        erase(progress);
        fputs(progress->held, stderr);
    }
    free(progress->held);
    progress->held = NULL;
    progress->holds = false;
    pthread_mutex_unlock(&progress->lock);
}
