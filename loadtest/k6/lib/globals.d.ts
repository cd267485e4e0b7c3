// What k6 provides without an import and @types/k6 leaves to the DOM's types.
declare const console: { error(text: string): void; warn(text: string): void; log(text: string): void };
