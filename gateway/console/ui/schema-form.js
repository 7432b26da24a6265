/**
 * `<schema-form>`: a form made from a JSON Schema, so that a resource type of a plug-in has an editor without any code here.
 * It sends `change` with the new data as `detail`.
 */
import {html, nothing} from "../vendor/lit.js";
import {t} from "../lib/i18n.js";
import {ConsoleElement} from "./element.js";
import {icon} from "./icon.js";

/**
 * @typedef {Record<string, any>} Schema
 * @typedef {{path: string, label: string, hint: string, required: boolean, disabled: boolean, faults: Record<string, string>, root: Schema}} FieldContext
 */

/** The schema that a reference or an optional value stands for. @param {Schema} schema @param {Schema} root @returns {Schema} */
export function simplifySchema(schema, root) {
  if (schema.$ref) return simplifySchema({...resolveReference(schema.$ref, root), ...withoutKey(schema, "$ref")}, root);
  const options = (schema.anyOf || schema.oneOf || []).filter((/** @type {Schema} */ one) => one.type !== "null");
  if (options.length) return simplifySchema({...options[0], ...withoutKey(withoutKey(schema, "anyOf"), "oneOf"), nullable: true}, root);
  if (schema.allOf?.length === 1) return simplifySchema({...schema.allOf[0], ...withoutKey(schema, "allOf")}, root);
  return schema;
}

/** @param {string} reference @param {Schema} root @returns {Schema} */
function resolveReference(reference, root) {
  return reference.replace(/^#\//, "").split("/").reduce((place, name) => place?.[name], root) || {};
}

/** @param {Schema} schema @param {string} key */
function withoutKey(schema, key) {
  const {[key]: _, ...rest} = schema;
  return rest;
}

export class SchemaForm extends ConsoleElement {
  static properties = {
    schema: {attribute: false}, value: {attribute: false}, faults: {attribute: false}, disabled: {type: Boolean}, prefix: {},
  };

  constructor() {
    super();
    /** @type {Schema} */
    this.schema = {};
    /** @type {any} */
    this.value = {};
    /** @type {Record<string, string>} message by pointer */
    this.faults = {};
    this.disabled = false;
    this.prefix = "field";
  }

  /** @param {any} value */
  send(value) {
    this.value = value;
    this.dispatchEvent(new CustomEvent("change", {detail: value}));
  }

  render() {
    const schema = simplifySchema(this.schema, this.schema);
    const context = {path: "", label: "", hint: "", required: false, disabled: this.disabled, faults: this.faults, root: this.schema};
    return html`<div class="stack">${this.renderProperties(schema, this.value || {}, (value) => this.send(value), context)}</div>`;
  }

  /** @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context */
  renderProperties(schema, value, change, context) {
    return Object.entries(schema.properties || {}).map(([name, part]) => {
      const inner = simplifySchema(part, context.root);
      return this.renderField(inner, value?.[name], (next) => change(setKey(value, name, next)), {
        ...context, path: `${context.path}/${name}`, label: part.title || capitalize(name), hint: inner.description || "",
        required: (schema.required || []).includes(name),
      });
    });
  }

  /** @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context @returns {unknown} */
  renderField(schema, value, change, context) {
    if (schema.enum) return this.frame(context, (id, about) => this.renderChoice(schema, value, change, context, id, about));
    if (schema.type === "boolean") return this.renderSwitch(schema, value, change, context);
    if (schema.type === "integer" || schema.type === "number") return this.frame(context, (id, about) => this.renderNumber(schema, value, change, context, id, about));
    if (schema.type === "string") return this.frame(context, (id, about) => this.renderText(schema, value, change, context, id, about));
    if (schema.type === "array") return this.renderList(schema, value || [], change, context);
    if (schema.type === "object" && schema.properties) return html`<fieldset class="stack nested"><legend class="label">${context.label}</legend>
      ${this.renderProperties(schema, value || {}, change, context)}</fieldset>`;
    if (schema.type === "object" && isSimpleMap(schema, context.root)) return this.renderMap(value || {}, change, context);
    return this.frame(context, (id, about) => this.renderJson(value, change, context, id, about));
  }

  /** @param {FieldContext} context @param {(id: string, about: string) => unknown} control */
  frame(context, control) {
    const id = `${this.prefix}${context.path.replaceAll("/", "-")}`;
    const fault = context.faults[context.path];
    return html`<div class="field"><label class=${isRequired(context) ? "required" : ""} for=${id}>${context.label}</label>
      ${control(id, `${id}-about`)}
      <div id="${id}-about">${fault ? html`<span class="fault">${icon("circle-alert")} ${fault}</span>` : nothing}
        ${context.hint ? html`<span class="hint">${context.hint}</span>` : nothing}</div></div>`;
  }

  /** @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context @param {string} id @param {string} about */
  renderText(schema, value, change, context, id, about) {
    const shown = Array.isArray(value) ? value.join("\n") : value ?? "";
    const accept = (/** @type {any} */ event) => change(event.target.value === "" ? undefined : event.target.value);
    const invalid = String(context.path in context.faults);
    const long = /content|text|body|instructions|template|description|tone|style|avoid|audience/i.test(context.path) || String(shown).length > 80;
    if (long) return html`<textarea id=${id} class=${/content|body|text/i.test(context.path) ? "tall" : ""} aria-describedby=${about} aria-invalid=${invalid}
      ?required=${context.required} ?disabled=${context.disabled} .value=${shown} @input=${accept}></textarea>`;
    return html`<input id=${id} aria-describedby=${about} aria-invalid=${invalid} ?required=${context.required} ?disabled=${context.disabled}
      placeholder=${schema.examples?.[0] ?? nothing} .value=${shown} @input=${accept}>`;
  }

  /** @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context @param {string} id @param {string} about */
  renderNumber(schema, value, change, context, id, about) {
    return html`<input id=${id} type="number" aria-describedby=${about} aria-invalid=${String(context.path in context.faults)} ?disabled=${context.disabled}
      min=${schema.minimum ?? nothing} max=${schema.maximum ?? nothing} step=${schema.type === "integer" ? 1 : "any"}
      placeholder=${schema.default ?? nothing} .value=${value ?? ""} @input=${(/** @type {any} */ event) => change(event.target.value === "" ? undefined : Number(event.target.value))}>`;
  }

  /** @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context @param {string} id @param {string} about */
  renderChoice(schema, value, change, context, id, about) {
    return html`<select id=${id} aria-describedby=${about} aria-invalid=${String(context.path in context.faults)} ?disabled=${context.disabled}
      @change=${(/** @type {any} */ event) => change(event.target.value === "" ? undefined : event.target.value)}>
      ${context.required ? nothing : html`<option value="" ?selected=${value === undefined || value === null}>${schema.default ? t("Default ({value})", {value: schema.default}) : "–"}</option>`}
      ${schema.enum.map((/** @type {string} */ option) => html`<option value=${option} ?selected=${option === value}>${option}</option>`)}</select>`;
  }

  /** @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context */
  renderSwitch(schema, value, change, context) {
    return html`<div class="field"><label class="check"><input type="checkbox" ?disabled=${context.disabled} .checked=${value ?? schema.default ?? false}
      @change=${(/** @type {any} */ event) => change(event.target.checked)}> ${context.label}</label><span class="hint">${context.hint}</span></div>`;
  }

  /** @param {Schema} schema @param {any[]} values @param {(value: any) => void} change @param {FieldContext} context */
  renderList(schema, values, change, context) {
    const item = simplifySchema(schema.items || {}, context.root);
    const label = (/** @type {number} */ index) => `${context.label} ${index + 1}`;
    return html`<fieldset class="stack tight"><legend class=${isRequired(context) ? "label required" : "label"}>${context.label}</legend>
      ${context.hint ? html`<span class="hint">${context.hint}</span>` : nothing}
      ${context.faults[context.path] ? html`<span class="fault">${context.faults[context.path]}</span>` : nothing}
      ${context.disabled && !values.length ? html`<span class="muted">${t("None.")}</span>` : nothing}
      ${values.map((value, index) => html`<div class="list-item"><div class="grow stack tight">
          ${item.type === "object" && item.properties
            ? this.renderProperties(item, value, (next) => change(values.with(index, next)), {...context, path: `${context.path}/${index}`})
            : this.renderBare(item, value, (next) => change(values.with(index, next ?? "")), {...context, path: `${context.path}/${index}`, label: label(index)})}</div>
        ${context.disabled ? nothing : html`<button type="button" class="button ghost small icon-only" aria-label=${t("Remove {name}", {name: label(index)})}
          @click=${() => change(values.toSpliced(index, 1))}>${icon("x")}</button>`}</div>`)}
      ${context.disabled ? nothing : html`<div><button type="button" class="button small" @click=${() => change([...values, item.type === "object" ? {} : item.type === "number" || item.type === "integer" ? 0 : ""])}>
        ${icon("plus")}${t("Add")}</button></div>`}</fieldset>`;
  }

  /** A control whose label is only read aloud. @param {Schema} schema @param {any} value @param {(value: any) => void} change @param {FieldContext} context */
  renderBare(schema, value, change, context) {
    if (schema.enum || schema.type === "object" || schema.type === "array") return this.renderField(schema, value, change, {...context, hint: ""});
    return html`<input aria-label=${context.label} type=${schema.type === "number" || schema.type === "integer" ? "number" : "text"} ?disabled=${context.disabled}
      .value=${value ?? ""} @input=${(/** @type {any} */ event) => change(schema.type === "string" ? event.target.value : Number(event.target.value))}>`;
  }

  /** Names with texts. @param {Record<string, any>} value @param {(value: any) => void} change @param {FieldContext} context */
  renderMap(value, change, context) {
    const entries = Object.entries(value);
    const replace = (/** @type {number} */ index, /** @type {[string, any]} */ entry) => change(Object.fromEntries(entries.with(index, entry)));
    return html`<fieldset class="stack tight"><legend class="label">${context.label}</legend>${context.hint ? html`<span class="hint">${context.hint}</span>` : nothing}
      ${entries.map(([name, text], index) => html`<div class="list-item">
        <input aria-label=${t("Name")} ?disabled=${context.disabled} .value=${name} @change=${(/** @type {any} */ event) => replace(index, [event.target.value, text])}>
        <input aria-label=${t("Value of {name}", {name})} ?disabled=${context.disabled} .value=${String(text)} @input=${(/** @type {any} */ event) => replace(index, [name, event.target.value])}>
        ${context.disabled ? nothing : html`<button type="button" class="button ghost small icon-only" aria-label=${t("Remove {name}", {name})}
          @click=${() => change(Object.fromEntries(entries.toSpliced(index, 1)))}>${icon("x")}</button>`}</div>`)}
      ${context.disabled ? nothing : html`<div><button type="button" class="button small" @click=${() => change({...value, "": ""})}>${icon("plus")}${t("Add")}</button></div>`}</fieldset>`;
  }

  /** What no control fits. @param {any} value @param {(value: any) => void} change @param {FieldContext} context @param {string} id @param {string} about */
  renderJson(value, change, context, id, about) {
    const accept = (/** @type {any} */ event) => {
      try {
        change(event.target.value.trim() === "" ? undefined : JSON.parse(event.target.value));
        event.target.setAttribute("aria-invalid", "false");
      } catch {
        event.target.setAttribute("aria-invalid", "true");
      }
    };
    return html`<textarea id=${id} class="mono" aria-describedby=${about} ?disabled=${context.disabled}
      .value=${value === undefined || value === null ? "" : JSON.stringify(value, null, 2)} @change=${accept}></textarea>`;
  }
}
customElements.define("schema-form", SchemaForm);

/** Whether somebody who may edit has to fill it in. @param {FieldContext} context */
const isRequired = (context) => context.required && !context.disabled;

/** @param {Schema} schema @param {Schema} root */
function isSimpleMap(schema, root) {
  const values = typeof schema.additionalProperties === "object" ? simplifySchema(schema.additionalProperties, root) : null;
  return values?.type === "string";
}

/** @param {any} object @param {string} key @param {any} value */
function setKey(object, key, value) {
  const {[key]: _, ...rest} = object || {};
  return value === undefined ? rest : {...object, [key]: value};
}

/** A field's name as a label: `valid_from` is "Valid from". @param {string} name */
const capitalize = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");
