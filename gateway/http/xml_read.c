#include "gateway/http/xml_read.h"

#include <expat.h>
#include <limits.h>
#include <string.h>

struct parsing {
    const struct gateway_xml_read *form;
    XML_Parser parser;
    unsigned depth;
    bool in_row;
    bool failed;
    char text[GATEWAY_XML_READ_TEXT_MAX];
    size_t text_size;
};

static void
stop(struct parsing *parsing)
{
    parsing->failed = true;
    (void)XML_StopParser(parsing->parser, XML_FALSE);
}

static void
on_start(void *arg, const char *name, const char **attributes)
{
    struct parsing *parsing = arg;

    (void)attributes;
    parsing->text_size = 0;
    if (++parsing->depth > GATEWAY_XML_READ_DEPTH_MAX ||
        (parsing->depth == 1 && strcmp(name, parsing->form->root) != 0))
        stop(parsing);
    else if (parsing->depth == 2)
        parsing->in_row = strcmp(name, parsing->form->row) == 0;
}

static void
on_text(void *arg, const char *text, int size)
{
    struct parsing *parsing = arg;

    if ((size_t)size >= sizeof(parsing->text) - parsing->text_size) {
        stop(parsing);
        return;
    }
    memcpy(parsing->text + parsing->text_size, text, (size_t)size);
    parsing->text_size += (size_t)size;
}

static void
on_end(void *arg, const char *name)
{
    struct parsing *parsing = arg;
    const struct gateway_xml_read *form = parsing->form;
    bool fits = true;

    parsing->text[parsing->text_size] = '\0';
    if (parsing->depth == 3 && parsing->in_row)
        fits = form->on_text(form->arg, true, name, parsing->text);
    else if (parsing->depth == 2 && parsing->in_row)
        fits = form->on_row(form->arg);
    else if (parsing->depth == 2)
        fits = form->on_text(form->arg, false, name, parsing->text);
    parsing->text_size = 0;
    parsing->depth--;
    if (!fits)
        stop(parsing);
}

/* Entities could make a small body large; nobody needs a document type here. */
static void
on_doctype(void *arg, const char *name, const char *system, const char *public, int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    stop(arg);
}

bool
gateway_xml_read_parse(const struct gateway_xml_read *form, const void *bytes, size_t size)
{
    struct parsing parsing = {.form = form};
    bool fits;

    if (size > INT_MAX)
        return false;
    parsing.parser = XML_ParserCreate("UTF-8");
    if (parsing.parser == NULL)
        return false;
    XML_SetUserData(parsing.parser, &parsing);
    XML_SetElementHandler(parsing.parser, on_start, on_end);
    XML_SetCharacterDataHandler(parsing.parser, on_text);
    XML_SetStartDoctypeDeclHandler(parsing.parser, on_doctype);
    fits = XML_Parse(parsing.parser, bytes, (int)size, 1) == XML_STATUS_OK && !parsing.failed;
    XML_ParserFree(parsing.parser);
    return fits;
}
