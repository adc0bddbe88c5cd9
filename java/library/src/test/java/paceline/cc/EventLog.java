package paceline.cc;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.BufferedReader;
import java.io.IOException;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads event logs (docs/design/event-log.md), of which several may follow each other in one text. */
final class EventLog {
    private static final JsonFactory JSON = new JsonFactory();

    private final BufferedReader text;
    private int line;

    EventLog(BufferedReader text) {
        this.text = text;
    }

    /** The next line; null at the end. */
    Line next() throws IOException {
        String read = text.readLine();
        if (read == null) {
            return null;
        }
        line++;
        try (JsonParser parser = JSON.createParser(read)) {
            parser.nextToken();
            return new Line(line, object(parser));
        }
    }

    private static Map<String, Object> object(JsonParser parser) throws IOException {
        Map<String, Object> fields = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String name = parser.currentName();
            parser.nextToken();
            fields.put(name, value(parser));
        }
        return fields;
    }

    private static Object value(JsonParser parser) throws IOException {
        switch (parser.currentToken()) {
            case START_OBJECT:
                return object(parser);
            case START_ARRAY:
                List<Object> list = new ArrayList<>();
                while (parser.nextToken() != JsonToken.END_ARRAY) {
                    list.add(value(parser));
                }
                return list;
            case VALUE_NUMBER_INT:
            case VALUE_NUMBER_FLOAT:
                return parser.getNumberValue();
            case VALUE_TRUE:
            case VALUE_FALSE:
                return parser.getBooleanValue();
            default:
                return parser.getText();
        }
    }

    /** One object of a log. What is left out is zero, false, an empty list, or the first word of a list of words. */
    static final class Line {
        final int number;
        private final Map<String, Object> fields;

        Line(int number, Map<String, Object> fields) {
            this.number = number;
            this.fields = fields;
        }

        boolean has(String name) {
            return fields.containsKey(name);
        }

        boolean is(String name) {
            return fields.get(name) == Boolean.TRUE;
        }

        String word(String name) {
            return (String) fields.get(name);
        }

        Object value(String name) {
            return fields.get(name);
        }

        /** All 64 bits. */
        long bits(String name) {
            Object value = fields.get(name);
            return value == null ? 0 : ((Number) value).longValue();
        }

        /** A time, a size or a rate: from 2^63 on there is no end. */
        long amount(String name) {
            Object value = fields.get(name);
            return value instanceof BigInteger ? Units.NEVER : bits(name);
        }

        /** The same, and no end where nothing is known. */
        long amountOrNever(String name) {
            return has(name) ? amount(name) : Units.NEVER;
        }

        @SuppressWarnings("unchecked")
        Line object(String name) {
            Object value = fields.get(name);
            return value == null ? null : new Line(number, (Map<String, Object>) value);
        }

        @SuppressWarnings("unchecked")
        List<Line> list(String name) {
            Object value = fields.get(name);
            if (value == null) {
                return Collections.emptyList();
            }
            List<Line> lines = new ArrayList<>();
            for (Object one : (List<Object>) value) {
                lines.add(new Line(number, (Map<String, Object>) one));
            }
            return lines;
        }
    }
}
